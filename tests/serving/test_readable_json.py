"""JSON for people has characters and no escapes of them."""

import ast

from tests.conftest import ROOT


def test_printed_json_keeps_characters():
    """Every `json.dumps` in a `print` or a file's `write` of a command."""
    found = 0
    for path in sorted((ROOT / "serving").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            if ast.unparse(node.func).split(".")[-1] not in ("print", "write"):
                continue
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == (
                    "json.dumps"
                ):
                    keywords = {k.arg: k.value for k in call.keywords}
                    value = keywords.get("ensure_ascii")
                    assert value is not None and not value.value, path.name
                    found += 1
    assert found >= 5
