"""JAX: a jitted training step."""
from _common import needs, show, skip

needs("jax")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

if jax.default_backend() != "gpu":
    skip("jax for CUDA")
jax.config.update("jax_default_matmul_precision", "highest")


def loss_of(weights, x, y):
    first, second = weights
    return jnp.mean((jnp.tanh(x @ first) @ second - y) ** 2)


@jax.jit
def step(weights, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    return [weight - 0.5 * gradient for weight, gradient in zip(weights, gradients)], loss


keys = jax.random.split(jax.random.key(1), 3)
weights = [jax.random.normal(keys[0], (64, 512)) / 8, jax.random.normal(keys[1], (512, 8)) / 22]
x = jax.random.normal(keys[2], (1024, 64))
y = x[:, :8] - x[:, 8:16]
losses = []
for _ in range(100):
    weights, loss = step(weights, x, y)
    losses.append(loss)
show("losses", losses[0], losses[49], losses[99])
show("weights", *(jnp.abs(weight).sum() for weight in weights))
