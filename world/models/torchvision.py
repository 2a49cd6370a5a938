"""torchvision: one of each architecture, and stand-ins for its C++ operators."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

from world.case import Built, stirred

# By kind; SIDES has the sides of images where they are not 64 pixels.
MODELS = {
    "classification": (
        "alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 maxvit_t "
        "mnasnet0_5 mobilenet_v2 mobilenet_v3_small regnet_x_400mf regnet_y_400mf resnet18 resnext50_32x4d "
        "shufflenet_v2_x0_5 "
        "squeezenet1_1 swin_t swin_v2_t vgg11_bn vit_small wide_resnet50_2"
    ),
    "segmentation": "fcn_resnet50 deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large deeplabv3_resnet50",
    "detection": (
        "fasterrcnn_mobilenet_v3_large_320_fpn ssdlite320_mobilenet_v3_large retinanet_resnet50_fpn fcos_resnet50_fpn "
        "maskrcnn_resnet50_fpn keypointrcnn_resnet50_fpn ssd300_vgg16"
    ),
    "video": "r3d_18 mc3_18 r2plus1d_18 s3d mvit_v2_s swin3d_t",
    "optical_flow": "raft_small",
}
SIDES = {"inception_v3": 96, "maxvit_t": 224, "alexnet": 96, "mvit_v2_s": 224}
_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    (
        "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
        "int sampling_ratio, bool aligned) -> Tensor"
    ),
)
_stand_ins: list[torch.library.Library] = []  # a library's operators are there as long as it is


def members() -> list[str]:
    return [f"{kind}.{name}" for kind, names in MODELS.items() for name in names.split()]


def build(member: str) -> Built:
    kind, _, name = member.partition(".")
    module = importlib.import_module("torchvision.models" if kind == "classification" else f"torchvision.models.{kind}")
    return globals()[f"_{kind}"](module, name)


def _classification(module: Any, name: str) -> Built:
    if name == "vit_small":
        model = module.VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=10)
        return Built(stirred(model), (torch.randn(4, 3, 32, 32),))
    settings = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    side = SIDES.get(name, 64)
    model = getattr(module, name)(weights=None, num_classes=10, **settings)
    return Built(stirred(model), (torch.randn(4, 3, side, side),), note=f"{side} pixels")


def _segmentation(module: Any, name: str) -> Built:
    model = getattr(module, name)(weights=None, weights_backbone=None, num_classes=5)
    return Built(stirred(model), (torch.randn(2, 3, 64, 64),))


def _detection(module: Any, name: str) -> Built:
    boxes = importlib.import_module("torchvision.ops.boxes")
    # torchvision takes one of two algorithms by the device and the number of boxes, and they round differently.
    boxes.batched_nms = boxes._batched_nms_coordinate_trick
    settings = {} if "ssd" in name else {"min_size": 96, "max_size": 128}
    classes = 2 if "keypoint" in name else 5
    model = getattr(module, name)(weights=None, weights_backbone=None, num_classes=classes, **settings)
    return Built(stirred(model), ([torch.rand(3, 96, 112), torch.rand(3, 100, 90)],))


def _video(module: Any, name: str) -> Built:
    side = SIDES.get(name, 64)
    frames = 16 if side == 224 or name == "s3d" else 8
    model = getattr(module, name)(weights=None, num_classes=10)
    return Built(stirred(model), (torch.randn(1 if side == 224 else 2, 3, frames, side, side),))


def _optical_flow(module: Any, name: str) -> Built:
    model = getattr(module, name)(weights=None)
    return Built(stirred(model), (torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128)), {"num_flow_updates": 3})


def stand_in() -> None:
    """Imports torchvision; where its C++ operators do not load, as those of a wheel for CUDA beside a CPU build of
    torch, operators in Python stand in. Nothing where it is not installed.
    """
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError:
        return
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    else:
        return
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")
    for operator in _OPERATORS:
        library.define(operator)
    library.impl("nms", _nms, "CompositeExplicitAutograd")
    library.impl("roi_align", _roi_align, "CompositeImplicitAutograd")
    _stand_ins.append(library)
    torchvision = importlib.import_module("torchvision")
    for module in (torchvision.extension, torchvision.ops.boxes, torchvision.ops.roi_align):
        module._assert_has_ops = lambda: None


def _nms(boxes: torch.Tensor, scores: torch.Tensor, limit: float) -> torch.Tensor:
    """Indices of boxes, best score first, that overlap no kept one by more than `limit` (intersection over union)."""
    box_iou = importlib.import_module("torchvision.ops").box_iou
    overlap = box_iou(boxes, boxes).cpu() > limit
    kept: list[int] = []
    for each in scores.argsort(descending=True, stable=True).tolist():
        if not any(overlap[each, other] for other in kept):
            kept.append(each)
    return torch.tensor(kept, dtype=torch.long, device=boxes.device)


def _roi_align(*arguments: Any) -> torch.Tensor:
    return importlib.import_module("torchvision.ops.roi_align")._roi_align(*arguments)
