# counts: no
"""Lightning: fit and validate a perceptron. Lightning takes CUPTI for itself, as a profiler does."""
from _common import exact, needs, quietly, scratch, show, weight_of

needs("torch", "lightning")
import lightning  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


class Perceptron(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8))

    def loss_of(self, batch):
        x, y = batch
        return F.mse_loss(self.layers(x), y)

    def training_step(self, batch, _):
        return self.loss_of(batch)

    def validation_step(self, batch, _):
        self.log("validation", self.loss_of(batch))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


exact()
x = torch.randn(2048, 64)
loader = DataLoader(TensorDataset(x, x[:, :8] - x[:, 8:16]), batch_size=128)
model = Perceptron()
with quietly():
    trainer = lightning.Trainer(max_epochs=3, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False, default_root_dir=scratch())
    trainer.fit(model, loader, loader)
show("validation loss", trainer.callback_metrics["validation"])
show("weights", weight_of(model))
