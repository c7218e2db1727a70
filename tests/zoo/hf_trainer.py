"""transformers: the Trainer, with a small BERT that learns to tell sequences apart."""
from _common import exact, needs, quietly, scratch, show, weight_of

needs("torch", "transformers", "accelerate")
import torch  # noqa: E402
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments  # noqa: E402

exact()
tokens = torch.randint(4, 128, (256, 32))
examples = [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": int(row[0] > 64)} for row in tokens]
model = BertForSequenceClassification(BertConfig(
    vocab_size=128, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
    max_position_embeddings=64, num_labels=2))
arguments = TrainingArguments(output_dir=scratch(), max_steps=30, per_device_train_batch_size=32, learning_rate=1e-3, seed=1,
                              report_to="none", save_strategy="no", disable_tqdm=True)
with quietly():
    trainer = Trainer(model=model, args=arguments, train_dataset=examples)
    result = trainer.train()
    evaluation = trainer.evaluate(examples)
show("training loss", result.training_loss)
show("evaluation loss", evaluation["eval_loss"])
show("weights", weight_of(model))
