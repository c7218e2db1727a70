"""transformers: greedy generation by a small Llama, with a cache of keys and values."""
import hashlib

from _common import exact, needs

needs("torch", "transformers")
import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

exact()
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.2)).cuda().eval()
prompts = torch.randint(3, 256, (4, 16)).cuda()
with torch.no_grad():
    tokens = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=False, min_new_tokens=64,
                            max_new_tokens=64, pad_token_id=0)
print("tokens", tuple(tokens.shape), hashlib.sha256(str(tokens.tolist()).encode()).hexdigest()[:16])
