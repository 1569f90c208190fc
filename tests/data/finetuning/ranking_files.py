"""Small files of topics and documents."""

import gzip
import lzma

from data.finetuning.ranking import documents


def put(folder, name, text):
    path = folder / name
    data = text if isinstance(text, bytes) else text.encode()
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix)
    path.write_bytes(pack(data) if pack else data)
    return str(path)


def texts(path, form="auto"):
    return {d.id: d.text for d in documents.stream(path, form)}
