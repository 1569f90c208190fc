# Training and serving, one image:
#   docker build -t xlnet-tf2 .
#   docker run xlnet-tf2 python run_classifier.py --help
#   docker run -p 8501:8501 -v "$PWD/export:/model:ro" -v "$PWD/keys.txt:/keys.txt:ro" xlnet-tf2
# The second form is the server (the default command); it needs an export at
# /model and hashes of API keys at /keys.txt (docs/guides/serving/deploy.md).
FROM python:3.11.14-slim-bookworm

ENV PYTHONUNBUFFERED=1 TF_CPP_MIN_LOG_LEVEL=3 PIP_NO_CACHE_DIR=1
WORKDIR /app
# Packages first: a change of the code does not install them anew.
COPY requirements*.txt ./
RUN python -m pip install --disable-pip-version-check \
    -r requirements.txt -r requirements-serve.txt -r requirements-tokenizers.txt
COPY . .
RUN useradd --create-home --uid 10001 xlnet && chown xlnet /app
USER 10001
EXPOSE 8501
# A server says whether it can answer; a training run has no server to ask.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8501/healthz', timeout=4)"]
CMD ["python", "-m", "serving.serve", "--saved_model_dir=/model", "--host=0.0.0.0", "--port=8501", "--api_keys_file=/keys.txt"]
