# A framework's habit: the loop, and the optimizer, are hidden in a class.
# iterations: 14
import torch
from torch import nn


class Trainer:
    def __init__(self, model, max_epochs):
        self.model, self.max_epochs = model, max_epochs

    def configure_optimizers(self):
        return torch.optim.AdamW(self.model.parameters(), lr=1e-2)

    def training_step(self, batch):
        return nn.functional.mse_loss(self.model(batch), batch.flip(1))

    def validation_step(self, batch):
        return nn.functional.mse_loss(self.model(batch), batch.flip(1)).item()

    def fit(self, batches, validation):
        optimizer = self.configure_optimizers()
        for epoch in range(self.max_epochs):
            self.model.train()
            for batch in batches:
                optimizer.zero_grad()
                loss = self.training_step(batch)
                loss.backward()
                optimizer.step()
            self.model.eval()
            with torch.no_grad():
                score = sum(self.validation_step(batch) for batch in validation)
            print("epoch %d loss %.4f validation %.4f" % (epoch, loss.item(), score))


torch.manual_seed(0)
trainer = Trainer(nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6)), max_epochs=2)
trainer.fit([torch.randn(8, 6) for _ in range(5)], [torch.randn(8, 6) for _ in range(2)])
print("done")
