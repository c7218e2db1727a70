// The examples share one lane, and nobody can tell from their results.
#include "tests/torch_fixture.h"

namespace salus::test {
namespace {

using Words = std::vector<std::string>;

struct Example {
    std::string script;
    Words small;  ///< a setting that takes some seconds
};

/// Four at a time; each group has its loops, its optimizers, and one that evaluates in between.
const std::vector<std::vector<Example>> kGroups = {
    {{"01_vae.py", {}}, {"03_resnet.py", {}}, {"04_lstm_lm.py", {}}, {"06_gan.py", {}}},
    {{"02_superres.py", {}}, {"05_gpt.py", {}}, {"07_speech_ctc.py", {}}, {"08_inference.py", {}}},
};

std::string script_of(const Example& example) { return SALUS_SOURCE_DIR "/examples/" + example.script; }

}  // namespace
}  // namespace salus::test
