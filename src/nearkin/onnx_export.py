"""The distance as an ONNX graph: original features in, distances out, in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nearkin.bundle import replaced
from nearkin.model import Model
from nearkin.persistence import fingerprint

OPSET, IR_VERSION = 17, 8  # old enough for every runtime of the last years


def export_onnx(model: Model, path: str | Path) -> None:
    """Write the distance of each query to each item.

    Inputs ``query`` (n_q, K) and ``item`` (n_i, K) are features in original units; with a class
    term also ``query_u`` (n_q, M) and ``item_u`` (n_i, M), class probabilities (one-hot where the
    class is known), with profiles ``query_b`` and ``item_b`` (0 for a new object), and with a
    completion ``query_z`` and ``item_z``, the points' features after the first K. Output
    ``distance`` (n_q, n_i). Differences are taken before they are squared, so no digits are lost;
    n_q * n_i * K numbers are held at once. The preparation is part of the graph.
    """
    try:
        from onnx import checker, helper  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError("ONNX needs the extra: pip install 'nearkin[onnx]'") from error
    graph = _Graph(model)
    graph.build()
    found = helper.make_model(
        graph.made(),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="nearkin",
    )
    helper.set_model_props(
        found,
        {
            "fingerprint": fingerprint(model.metric),
            "feature_names": "\n".join(model.objects.feature_names),
            "classes": "\n".join(str(c) for c in _classes(model)),
        },
    )
    checker.check_model(found, full_check=True)
    with replaced(Path(path), binary=True) as file:
        file.write(found.SerializeToString())


def _classes(model: Model) -> list[Any]:
    return [] if model.metric.classes is None else model.metric.classes.tolist()


class _Graph:
    """Nodes, constants and inputs, as they are added."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper  # noqa: PLC0415

        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def input(self, name: str, rows: str, columns: int) -> str:
        from onnx import TensorProto, helper  # noqa: PLC0415

        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.DOUBLE, [rows, columns]))
        return name

    def node(self, operator: str, inputs: list[str], out: str, **attributes: Any) -> str:
        from onnx import helper  # noqa: PLC0415

        self.nodes.append(helper.make_node(operator, inputs, [out], **attributes))
        return out

    def build(self) -> None:
        """Add ``d = sqrt(max(sum_k r_k (x_k - x'_k)^2 + class terms, 0))``."""
        metric, prep = self.model.metric, self.model.preparation
        self.constant("kept", prep.kept_)
        self.constant("shift", prep.shift_)
        K = metric.n_given
        self.constant("per_scale", np.sqrt(metric.weights[:K]) / prep.scale_)
        self.constant("last", np.array([2], dtype=np.int64))
        sides = []
        for side, rows, axis in (("query", "n_q", 1), ("item", "n_i", 0)):
            x = self.input(side, rows, self.model.objects.X.shape[1])
            x = self.node("Gather", [x, "kept"], f"{side}_kept", axis=1)
            x = self.node("Sub", [x, "shift"], f"{side}_shifted")
            x = self.node("Mul", [x, "per_scale"], f"{side}_scaled")
            if metric.completion is not None:
                z = self.input(f"{side}_z", rows, metric.n_features - K)  # of weight 1
                x = self.node("Concat", [x, z], f"{side}_completed", axis=1)
            at = self.constant(f"{side}_axis", np.array([axis], dtype=np.int64))
            sides.append(self.node("Unsqueeze", [x, at], f"{side}_wide"))
        self.node("Sub", sides, "difference")
        self.node("Mul", ["difference", "difference"], "squares")
        d2 = self.node("ReduceSum", ["squares", "last"], "features_d2", keepdims=0)
        if metric.class_costs is not None:
            d2 = self._with_classes(d2)
        self.constant("zero", np.zeros(()))
        self.node("Max", [d2, "zero"], "d2")
        self.node("Sqrt", ["d2"], "distance")

    def _with_classes(self, d2: str) -> str:
        """Add ``u . Q u' + u . b' + b . u'``."""
        metric = self.model.metric
        M = metric.n_classes
        u, v = self.input("query_u", "n_q", M), self.input("item_u", "n_i", M)
        self.constant("class_costs", metric.class_costs)
        costs = self.node("MatMul", [u, "class_costs"], "query_costs")
        if metric.profiled:
            b, c = self.input("query_b", "n_q", M), self.input("item_b", "n_i", M)
            costs = self.node("Add", [costs, b], "query_costs_rated")
            turned = self.node("Transpose", [c], "item_b_turned", perm=[1, 0])
            rated = self.node("MatMul", [u, turned], "item_rated")
            d2 = self.node("Add", [d2, rated], "with_ratings")
        turned = self.node("Transpose", [v], "item_u_turned", perm=[1, 0])
        classes = self.node("MatMul", [costs, turned], "class_d2")
        return self.node("Add", [d2, classes], "whole_d2")

    def made(self) -> Any:
        """Return the graph."""
        from onnx import TensorProto, helper  # noqa: PLC0415

        out = helper.make_tensor_value_info("distance", TensorProto.DOUBLE, ["n_q", "n_i"])
        return helper.make_graph(self.nodes, "nearkin_distance", self.inputs, [out], self.constants)
