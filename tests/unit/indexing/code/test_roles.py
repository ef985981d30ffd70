from __future__ import annotations

import pytest

from strata.model.corpus import Chunk, Layer
from tests.support.parsing import chunks_of


def roles(content: str, path: str = "shop/things.py") -> dict[str, Chunk]:
    return {chunk.title: chunk for chunk in chunks_of(path, content, Layer.C4_SEMANTIC_ROLES)}


@pytest.mark.parametrize(
    ("content", "role", "evidence"),
    [
        pytest.param("class OrderService: ...\n", "service", "its name is OrderService", id="service"),
        pytest.param("class OrderRepository: ...\n", "repository", "its name is OrderRepository", id="repository"),
        pytest.param(
            "from django.db import models\nclass Order(models.Model): ...\n",
            "model",
            "it inherits from django.db.models.Model",
            id="model by its base",
        ),
        pytest.param("class OrderHandler: ...\n", "handler", "its name is OrderHandler", id="handler"),
        pytest.param("class S3Client: ...\n", "adapter", "its name is S3Client", id="adapter"),
        pytest.param("class Settings(BaseSettings): ...\n", "config", "it inherits from BaseSettings", id="config"),
        pytest.param("class T(unittest.TestCase): ...\n", "test", "it inherits from unittest.TestCase", id="test"),
        pytest.param("class Migration(M): ...\n", "migration", "its name is Migration", id="migration"),
        pytest.param("class Port(Protocol): ...\n", "interface", "it inherits from Protocol", id="interface"),
        pytest.param(
            "@dataclass(frozen=True)\nclass Point: ...\n", "value", "it is decorated with dataclass", id="value"
        ),
        pytest.param(
            "class NotFound(StoreError): ...\n", "error", "it inherits from StoreError", id="base by its name"
        ),
    ],
)
def test_a_class_has_the_role_that_its_strongest_sign_says(content: str, role: str, evidence: str) -> None:
    (found,) = roles(content).values()
    assert found.metadata["role"] == role
    assert found.metadata["evidence"][0] == evidence
    assert evidence in found.content


def test_a_role_names_the_lines_of_the_head() -> None:
    found = roles("import x\n\n@dataclass\nclass Shop(\n    Base,\n):\n    '''Doc.'''\n    a: int\n    b: int\n")
    assert (found["Shop"].span.start, found["Shop"].span.end) == (3, 6)


@pytest.mark.parametrize(
    ("path", "role"),
    [
        pytest.param("shop/migrations/0001_initial.py", "migration", id="by its folder"),
        pytest.param("shop/models.py", "model", id="by its name"),
        pytest.param("tests/test_shop.py", "test", id="a test file"),
        pytest.param("services/models.py", "model", id="the name before the folder"),
        pytest.param("shop/things.py", None, id="no sign, no document"),
    ],
)
def test_a_module_has_a_role_by_its_place(path: str, role: str | None) -> None:
    found = roles("x = 1\n", path)
    assert [chunk.metadata["role"] for chunk in found.values()] == ([role] if role else [])
