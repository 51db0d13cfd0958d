#include "flags.h"

#include <CLI/CLI.hpp>
#include <cmath>

namespace fashion_mnist {
namespace {

constexpr const char* kAbout =
    "Trains one network on Fashion-MNIST with several optimizers, from the same seed and in the\n"
    "same data order, and compares them. Exit code 1 when something fails or when the losses of\n"
    "torch's and jitstep's fp32 AdamW differ too much, 2 for a bad flag.\n";

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
  app.add_option("--epochs", flags.epochs, "Epochs; default 1")->check(CLI::Range(1, 1000));
  app.add_option("--batch", flags.batch, "Images per step; default 128")
      ->check(CLI::Range(1, 60000));
  app.add_option("--limit", flags.limit, "Use only the first N training images; default all")
      ->check(CLI::Range(1, 60000));
  app.add_option("--seed", flags.seed, "Seed of the weights and the data order; default 1");
  app.add_option("--device", flags.device, "cpu or cuda; default cpu")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--threads", flags.threads, "CPU threads; default: what torch chooses")
      ->check(CLI::Range(1, 1024));
}

void add_path_flags(CLI::App& app, Flags& flags) {
  app.add_option("--data", flags.data, "Folder of the gzip files; default " + flags.data.string());
  app.add_option("--out", flags.out,
                 "Folder for fashion_mnist.json, made when missing; default the current one");
}

}  // namespace

std::optional<int> parse_flags(int argc, char** argv, Flags& flags) {
  CLI::App app(kAbout, "fashion_mnist");
  add_optimizer_flags(app, flags);
  add_training_flags(app, flags);
  add_path_flags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace fashion_mnist
