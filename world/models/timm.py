"""timm: models of each module of its registry, small images."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import torch

from opinfo.running import first_line
from world.case import Built, stirred

# Small models, each of an architecture of its own.
NAMES = """
beit_base_patch16_224 caformer_s18 cait_xxs24_224 coat_tiny coatnet_pico_rw_224 coatnext_nano_rw_224 convit_tiny
convmixer_768_32 convnext_zepto_rms convnextv2_atto cpubone_nano crossvit_tiny_240 cs3darknet_focus_s csatv2
cspnext_s cspresnext50 darknet17 davit_tiny deit_tiny_patch16_224 densenet169 densenetblur121d dla60_res2next dpn68
eca_botnext26ts_256 eca_nfnet_l0 eca_vovnet39b edgenext_x_small efficientformer_l1 efficientformerv2_s0
efficientvim_m1 efficientvit_b0 efficientvit_m0 ese_vovnet19b_slim_dw eva02_tiny_patch14_224 fasternet_t0 fastvit_t8
flexivit_small focalnet_tiny_srf gcvit_xxtiny gernet_s ghostnet_050 ghostnetv3_050 gmixer_12_224 gmlp_ti16_224
halonet_h1 hardcorenas_b hgnet_tiny hgnetv2_b0 hiera_tiny_224 hrnet_w18_small iformer_t inception_next_atto
inception_resnet_v2 inception_v3 inception_v4 lambda_resnet26t lcnet_035 lcnetv2_small legacy_seresnext26_32x4d
legacy_xception levit_384_s8 lowformer_b0 mambaout_femto maxvit_pico_rw_256 mnasnet_small mobilenetv2_035
mobilenetv3_small_050 mobilenetv5_base mobileone_s1 mobilevit_xxs mobilevitv2_050 mvitv2_tiny
naflexvit_base_patch16_gap nasnetalarge nest_tiny nextvit_small nf_seresnet26 pit_ti_224 pnasnet5large
poolformer_s12 poolformerv2_s12 pvt_v2_b0 rdnet_tiny regnetx_004_tv regnety_008_tv regnetz_005 repghostnet_050
repvgg_a0 repvit_m1 res2next50 resmlp_12_224 resnest14d resnet10t resnetblur18 resnetv2_101 rexnet_100 rexnetr_100
sam2_hiera_tiny samvit_base_patch16_224 selecsls42 semnasnet_050 sequencer2d_s seresnet18 shvit_s1 skresnet18
skresnext50_32x4d starnet_s1 swiftformer_xs swin_tiny_patch4_window7_224 swinv2_cr_tiny_224 swinv2_tiny_window8_256
tf_mobilenetv3_small_075 tiny_vit_5m_224 tnt_s_legacy_patch16_224 tresnet_m twins_svt_small visformer_tiny
vit_srelpos_small_patch16_224 vit_tiny_patch16_dinov3_qkvb vit_tiny_r_s16_p8_224 vitamin_small_224 volo_d1_224
vovnet39a xception41 xcit_nano_12_p8_224
"""
SIDES = (64, 96, 128, 224)  # pixels to try, in this order, then what the model was made for
BATCH = 4  # a batch norm in training needs several values


def members() -> list[str]:
    """The models of the table that there are, and the one with the shortest name of each module that has none there."""
    timm = importlib.import_module("timm")
    found = {name for name in NAMES.split() if timm.is_model(name)}
    for module in timm.list_modules():
        names = timm.list_models(module=module)
        if names and found.isdisjoint(names):
            found.add(min(names, key=lambda name: (len(name), name)))
    return sorted(found)


def build(member: str) -> Built:
    """Raises LookupError if no size of image fits."""
    timm = importlib.import_module("timm")
    why = []
    for side in (*SIDES, timm.get_pretrained_cfg(member).input_size[-1]):
        for settings in ({"img_size": side}, {}):
            try:
                return _tried(timm, member, side, settings)
            except (AssertionError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
                why.append(f"{side} pixels: {first_line(error)}")
    raise LookupError("; ".join(dict.fromkeys((why[0], why[-1]))))


def _tried(timm: Any, name: str, side: int, settings: dict[str, Any]) -> Built:
    torch.manual_seed(0)
    model = stirred(timm.create_model(name, pretrained=False, num_classes=10, **settings).float())
    images = torch.randn(BATCH, 3, side, side)
    with torch.no_grad():
        copy.deepcopy(model)(images)
    return Built(model, (images,), note=f"{side} pixels")
