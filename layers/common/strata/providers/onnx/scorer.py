"""`OnnxScorer`: a cross-encoder from a local directory, on the CPU, in this process.

The directory holds `tokenizer.json` and `model.onnx`, as they are exported for sequence classification: a pair of
question and passage goes in, one logit comes out, or two of which the second says "relevant".
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from strata.errors import ConfigurationError, RerankerRejected, RerankerUnavailable
from strata.providers.onnx.description import MODEL_FILE, TOKENIZER_FILE

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer

MAX_TOKENS = 512
"""Of question and passage together; the longer one is cut, down to half of this."""
BATCH_PAIRS = 8
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxScorer:
    """A `PassageScorer`. A score is between 0 and 1; a pair's score does not depend on what else is in the call."""

    model_id: str
    session: InferenceSession = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    inputs: tuple[str, ...]

    @classmethod
    def load(cls, model_directory: Path, *, threads: int = 0) -> OnnxScorer:
        """`threads` = 0 takes every core. Raises `ConfigurationError` when the directory holds no cross-encoder."""
        missing = [name for name in (MODEL_FILE, TOKENIZER_FILE) if not (model_directory / name).is_file()]
        if missing:
            raise ConfigurationError(
                f"{model_directory} holds no reranker ({', '.join(missing)} missing): put a cross-encoder that was "
                "exported to ONNX there, or set STRATA_RERANKER_MODEL to its folder's name."
            )
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        model = model_directory / MODEL_FILE
        try:
            session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
            tokenizer = Tokenizer.from_file(str(model_directory / TOKENIZER_FILE))
        except Exception as error:  # both libraries raise classes of their own, straight under Exception
            raise ConfigurationError(f"The reranker in {model_directory} can't be loaded.") from error
        inputs = tuple(given.name for given in session.get_inputs())
        if "input_ids" not in inputs or set(inputs) - _INPUTS:
            raise ConfigurationError(
                f"The model in {model_directory} takes {', '.join(inputs)}; a cross-encoder takes "
                f"{', '.join(sorted(_INPUTS))}."
            )
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS, strategy="longest_first")
        fingerprint = hashlib.sha256(model.read_bytes()).hexdigest()[:12]
        return cls(
            model_id=f"{model_directory.name}-{fingerprint}", session=session, tokenizer=tokenizer, inputs=inputs
        )

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        encodings = self._encoded(question, passages)
        scores = np.zeros(len(passages))
        # Pairs of like length together: less padding.
        order = sorted(range(len(passages)), key=lambda place: len(encodings[place].ids))
        for start in range(0, len(order), BATCH_PAIRS):
            places = order[start : start + BATCH_PAIRS]
            scores[places] = self._run([encodings[place] for place in places])
        if not np.isfinite(scores).all():
            raise RerankerRejected("The reranker answered with something that is no finite score.")
        return [float(score) for score in scores]

    def _encoded(self, question: str, passages: Sequence[str]) -> list[Encoding]:
        asked = _readable(question)
        return self.tokenizer.encode_batch([(asked, _readable(passage)) for passage in passages])

    def _run(self, encodings: Sequence[Encoding]) -> NDArray[np.float64]:
        width = max(len(encoding.ids) for encoding in encodings)
        columns = {name: np.zeros((len(encodings), width), dtype=np.int64) for name in _INPUTS}
        for row, encoding in enumerate(encodings):
            length = len(encoding.ids)
            columns["input_ids"][row, :length] = encoding.ids
            columns["attention_mask"][row, :length] = encoding.attention_mask
            columns["token_type_ids"][row, :length] = encoding.type_ids
        try:
            logits = self.session.run(None, {name: columns[name] for name in self.inputs})[0]
        except Exception as error:  # onnxruntime's classes stand straight under Exception
            raise RerankerUnavailable(f"The reranker failed on {len(encodings)} passages.") from error
        return _probabilities(np.asarray(logits, dtype=np.float64), len(encodings))


def _readable(text: str) -> str:
    """Half of a surrogate pair is no text for the tokenizer; a JSON body may hold one."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _probabilities(logits: NDArray[np.float64], pairs: int) -> NDArray[np.float64]:
    """
    >>> _probabilities(np.array([[0.0], [2.0]]), 2).round(3).tolist()
    [0.5, 0.881]
    >>> _probabilities(np.array([[1.0, 1.0]]), 1).tolist()
    [0.5]
    """
    if logits.shape == (pairs, 2):
        logits = logits[:, 1:] - logits[:, :1]
    if logits.shape not in ((pairs, 1), (pairs,)):
        raise RerankerRejected(f"The reranker answered {pairs} pairs with an array of shape {logits.shape}.")
    probabilities: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-logits.reshape(pairs).clip(-60.0, 60.0)))
    return probabilities
