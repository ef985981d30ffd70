"""Adapters of models: embedders, chat models, rerankers. Imported on use."""
