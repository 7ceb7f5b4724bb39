"""The other side: a FastAPI handler around a `transformers` pipeline, as tutorials write it. PORT, FOLDER, THREADS."""

import sys

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import pipeline


class Body(BaseModel):
    texts: list[str]


def make(folder: str) -> FastAPI:
    classify = pipeline("text-classification", model=folder, top_k=None, truncation=True)
    app = FastAPI()

    @app.post("/v1/predict")
    def predict(body: Body) -> list:  # FastAPI runs it in a thread of its pool
        return classify(body.texts)

    @app.get("/healthz")
    def alive() -> str:
        return "alive"

    return app


if __name__ == "__main__":
    port, folder, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    uvicorn.run(make(folder), host="127.0.0.1", port=int(port), access_log=False, log_level="warning")
