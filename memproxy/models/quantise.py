"""An ONNX model's weights in 8 bits. Needs the package ``onnx``, which nothing else here does."""

import logging

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from memproxy.errors import EmbedderUnavailable
from memproxy.metrics import metrics

log = logging.getLogger(__name__)

BLOCK = 64
"""Weights that share one scale: consecutive ones of a column. With MiniLM 128 are no faster and less like the model, 32
take 0.3 ms more for a short question.
"""

_MIDDLE = 128
"""What stands for zero in a byte without sign."""

_DOMAIN = "com.microsoft"
_INT8_ACCUMULATION = 4
"""The inputs of a product become 8 bits too, row by row and block by block: a text's vector does not depend on which
others are embedded with it, as it would with one scale for a whole batch.
"""


def quantised(model: bytes) -> bytes:
    """The model with each product by a matrix of 32-bit floats replaced by one with a matrix of 8 bits (ONNX Runtime's
    ``MatMulNBits``); all else, the table of words above all, stays as it is.

    Raises:
        EmbedderUnavailable: it is no ONNX model, its weights are in other files, or it has no such matrix.
    """
    try:
        parsed = onnx.load_model_from_string(model)
    except Exception as error:
        # protobuf's own types, of a package that is onnx's and not ours; questions go on in full precision
        metrics().internal_errors.labels(where="models.quantise").inc()
        log.warning("the embedding model's file cannot be read by onnx (%s: %s)", type(error).__name__, error)
        raise EmbedderUnavailable("the model's file is no ONNX model") from error
    graph = parsed.graph
    if any(one.data_location == onnx.TensorProto.EXTERNAL for one in graph.initializer):
        raise EmbedderUnavailable("the model's weights are in files of their own")
    matrices = {one.name: one for one in graph.initializer if one.data_type == onnx.TensorProto.FLOAT}
    products = [
        node
        for node in graph.node
        if node.op_type == "MatMul" and node.input[1] in matrices and len(matrices[node.input[1]].dims) == 2
    ]
    if not products:
        raise EmbedderUnavailable("the model has no product with a matrix of 32-bit floats")
    for name in dict.fromkeys(node.input[1] for node in products):
        _store(graph, name, numpy_helper.to_array(matrices[name]))
    for node in products:
        _replace(node, matrices[node.input[1]])
    _drop_unused(graph)
    if all(one.domain != _DOMAIN for one in parsed.opset_import):
        parsed.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    made: bytes = parsed.SerializeToString()
    return made


def in_blocks(matrix: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """A matrix of shape [rows, columns] as bytes, [columns, blocks, `BLOCK`], and their scales, [columns, blocks]: a
    weight is (byte - 128) × scale. What a last block lacks is zero.
    """
    rows, columns = matrix.shape
    padded = np.zeros((columns, -(-rows // BLOCK) * BLOCK), np.float32)
    padded[:, :rows] = matrix.T
    blocks = padded.reshape(columns, -1, BLOCK)
    scales = np.abs(blocks).max(axis=2) / 127
    # nothing but zeros needs no scale
    steps = np.rint(blocks / np.where(scales > 0, scales, 1)[:, :, None])
    return (steps + _MIDDLE).astype(np.uint8), scales


def _store(graph: onnx.GraphProto, name: str, matrix: npt.NDArray[np.float32]) -> None:
    steps, scales = in_blocks(matrix)
    graph.initializer.append(numpy_helper.from_array(steps, f"{name}.steps"))
    graph.initializer.append(numpy_helper.from_array(scales, f"{name}.scales"))


def _replace(node: onnx.NodeProto, matrix: onnx.TensorProto) -> None:
    rows, columns = matrix.dims
    made = helper.make_node(
        "MatMulNBits",
        [node.input[0], f"{matrix.name}.steps", f"{matrix.name}.scales"],
        list(node.output),
        name=node.name,
        domain=_DOMAIN,
        K=rows,
        N=columns,
        bits=8,
        block_size=BLOCK,
        accuracy_level=_INT8_ACCUMULATION,
    )
    node.CopyFrom(made)


def _drop_unused(graph: onnx.GraphProto) -> None:
    used = {name for node in graph.node for name in node.input} | {one.name for one in graph.output}
    for place in reversed(range(len(graph.initializer))):
        if graph.initializer[place].name not in used:
            del graph.initializer[place]
