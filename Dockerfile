# docker build -t memgrow . && docker run -p 127.0.0.1:8000:8000 -e MEMGROW_TOKEN=... -v ./models:/models memgrow /models/model
FROM python:3.11-slim
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu '.[serve]' \
    && useradd --create-home memgrow && install --directory --owner memgrow /models
USER memgrow
ENV HF_HUB_OFFLINE=1
VOLUME /models
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:8000/health', timeout=5)"]
ENTRYPOINT ["memgrow", "serve", "--host", "0.0.0.0"]
