# docker build -t memgrow . && docker run -p 127.0.0.1:8000:8000 -e MEMGROW_TOKEN=... -v ./models:/models memgrow /models/model
# Python 3.11.16
FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7
WORKDIR /app
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --no-deps --no-build-isolation . \
    && useradd --create-home memgrow && install --directory --owner memgrow /models
USER memgrow
ENV HF_HUB_OFFLINE=1
VOLUME /models
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:8000/health', timeout=5)"]
ENTRYPOINT ["memgrow", "serve", "--host", "0.0.0.0"]
