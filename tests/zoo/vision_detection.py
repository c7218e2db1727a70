"""torchvision: Faster R-CNN finds boxes in an image, then trains one step."""
from _common import exact, needs, show

needs("torch", "torchvision")
import torch  # noqa: E402
from torchvision.models.detection import fasterrcnn_resnet50_fpn  # noqa: E402

exact(deterministic=False)  # in that mode roi_align is another, slow one
model = fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=5, min_size=256, max_size=256).cuda()
image = torch.rand(3, 256, 256).cuda()
target = {"boxes": torch.tensor([[20.0, 30.0, 120.0, 160.0], [100.0, 80.0, 240.0, 200.0]]).cuda(),
          "labels": torch.tensor([1, 3]).cuda()}
with torch.no_grad():
    found, = model.eval()([image])
print("boxes", len(found["boxes"]))
show("mean score", found["scores"].mean().item(), digits=2)
losses = model.train()([image], [target])
for name in sorted(losses):
    show(name, losses[name].item(), digits=2)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
sum(losses.values()).backward()
optimizer.step()
print("gradients", sum(parameter.grad is not None for parameter in model.parameters()))
