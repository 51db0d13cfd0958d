#include "flags.h"

#include <CLI/CLI.hpp>
#include <cmath>

namespace training {
namespace {

// Empty when the text is a learning rate; CLI11 reads it as a number afterwards.
std::string explain_bad_rate(const std::string& text) {
  double rate = 0;
  if (CLI::detail::lexical_cast(text, rate) && rate > 0 && std::isfinite(rate)) return "";
  return "expected a finite number above 0, got " + text;
}

void add_optimizer_flags(CLI::App& app, Flags& flags) {
  app.add_option("--optimizers", flags.optimizers,
                 "Which to train, a list with commas: torch-adamw, adamw, lamb, and adamw or lamb "
                 "with a state format, such as adamw-int8, adamw-int4, lamb-int8. "
                 "Default: torch-adamw,adamw,adamw-int8,adamw-int4,lamb")
      ->delimiter(',');
  app.add_option("--spec", flags.specs,
                 "One more optimizer as JSON, may be repeated; without --optimizers only these "
                 "are trained. Example: '{\"rule\": \"sgd\", \"options\": {\"lr\": 0.05}}'")
      ->allow_extra_args(false);
  app.add_option("--rule", flags.rules,
                 "A file with a rule that --spec may name by the file's name, may be repeated")
      ->check(CLI::ExistingFile)
      ->allow_extra_args(false);
  app.add_option("--state", flags.state,
                 "State format of adamw and lamb where the name has none; default fp32");
  app.add_option("--lr", flags.lr,
                 "Learning rate of all named optimizers; default: each rule's own")
      ->check(CLI::Validator(explain_bad_rate, "POSITIVE"));
}

void add_training_flags(CLI::App& app, Flags& flags) {
  app.add_option("--batch", flags.batch,
                 "Examples in each step; default " + std::to_string(flags.batch))
      ->check(CLI::Range(1, 60000));
  app.add_option("--dtype", flags.dtype,
                 "Of the parameters: float32, bfloat16 or float16; all is computed in float32")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  app.add_option("--seed", flags.seed, "Seed of the weights and the data order; default 1");
  app.add_option("--device", flags.device, "cpu or cuda; default cpu")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--threads", flags.threads, "CPU threads; default: what torch chooses")
      ->check(CLI::Range(1, 1024));
}

}  // namespace

void add_flags(CLI::App& app, Flags& flags) {
  add_optimizer_flags(app, flags);
  add_training_flags(app, flags);
  app.add_option("--data", flags.data, "Folder of the data; default " + flags.data.string());
  app.add_option(
      "--out", flags.out,
      "Folder for " + app.get_name() + ".json, made when missing; default the current one");
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
