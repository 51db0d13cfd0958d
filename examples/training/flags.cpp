#include "flags.h"

#include <CLI/CLI.hpp>
#include <cmath>

namespace training {
namespace {

// Empty if the text is a valid learning rate.
std::string explain_bad_rate(const std::string& text) {
  double rate = 0;
  if (CLI::detail::lexical_cast(text, rate) && rate > 0 && std::isfinite(rate)) return "";
  return "expected a finite number above 0, got " + text;
}

void add_optimizer_flags(CLI::App& app, Flags& flags) {
  app.add_option(
         "--optimizers", flags.optimizers,
         "Optimizers, separated by commas: torch-adamw, adamw, lamb, and adamw or lamb with "
         "a state format, such as adamw-int8, adamw-int4, lamb-int8 "
         "(default: torch-adamw,adamw,adamw-int8,adamw-int4,lamb)")
      ->delimiter(',');
  app.add_option("--spec", flags.specs,
                 "An optimizer as JSON, may be repeated. Without --optimizers, only these are "
                 "trained. Example: '{\"rule\": \"sgd\", \"options\": {\"lr\": 0.05}}'")
      ->allow_extra_args(false);
  app.add_option("--rule", flags.rules,
                 "File of a rule, may be repeated. --spec may then use the rule's name")
      ->check(CLI::ExistingFile)
      ->allow_extra_args(false);
  app.add_option("--state", flags.state,
                 "State format of adamw and lamb if the name has none (default: fp32)");
  app.add_option("--lr", flags.lr,
                 "Learning rate of all named optimizers (default: each rule's default)")
      ->check(CLI::Validator(explain_bad_rate, "POSITIVE"));
}

void add_training_flags(CLI::App& app, Flags& flags) {
  app.add_option("--batch", flags.batch,
                 "Examples per step (default: " + std::to_string(flags.batch) + ")")
      ->check(CLI::Range(1, 60000));
  app.add_option("--dtype", flags.dtype,
                 "Dtype of the parameters: float32, bfloat16 or float16. Layers compute in float32")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  app.add_option("--seed", flags.seed, "Seed of the weights and the data order (default: 1)");
  app.add_option("--device", flags.device, "cpu or cuda (default: cpu)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--threads", flags.threads, "Number of CPU threads (default: torch's default)")
      ->check(CLI::Range(1, 1024));
}

}  // namespace

void add_flags(CLI::App& app, Flags& flags) {
  add_optimizer_flags(app, flags);
  add_training_flags(app, flags);
  app.add_option("--data", flags.data, "Folder of the data (default: " + flags.data.string() + ")");
  app.add_option("--out", flags.out,
                 "Folder for " + app.get_name() +
                     ".json, created if it is missing (default: the current folder)");
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace training
