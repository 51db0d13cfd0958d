// jitstep inspect: what a kernel is made of, what became of it, and why.
#include <jit/base/text.h>
#include <jitstep/jit/error.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "inspect/line_diff.h"
#include "inspect/sections.h"
#include "optimizer_words.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using inspect::Subject;

constexpr const char* kFooter =
    "Nothing is run and no GPU is needed. What --show takes:\n"
    "  source     the unit: the few lines that make the kernel of the templates\n"
    "  flat       all that the compiler is given: one file that compiles alone\n"
    "  ptx, sass  of GPUs; sass where nvdisasm is found\n"
    "  asm        of the CPU, with the lines of the templates\n"
    "  log        the compiler's options and what it said\n"
    "  resources  registers, spills and occupancy; of the CPU, its vectors\n"
    "  model      bytes for each parameter, and the limit that follows\n"
    "  records    what was measured of it, by `jitstep tune` or in steps\n"
    "  key        the cache's key in clear, and why each part is in it\n\n"
    "  jitstep inspect --rule lion --state int8 --show sass\n"
    "  jitstep inspect --rule ./mine.cuh --target cpu --show asm\n"
    "  jitstep inspect --state int4 --show ptx --diff vector=8\n\n"
    "To run an edited kernel: a program under JITSTEP_DUMP=folder writes each kernel's flat.cuh; "
    "edit it there and\n"
    "run the program under JITSTEP_OVERRIDE=folder. `--override flat.cuh` shows what becomes of "
    "it.";

struct Words {
  inspect::Request request;
  std::string target = "sm_90";
  std::vector<std::string> show, other_variant;
  bool json = false;
};

void add_words(CLI::App& command, Words& words) {
  add_optimizer_words(command, words.request.kernel);
  command.add_option("--target", words.target, "sm_ with a number, cpu or emulated")
      ->capture_default_str();
  command.add_option("--dims", words.request.dims, "The parameters' number of dimensions")
      ->check(CLI::Range(0, kMaxDims))
      ->capture_default_str();
  command.add_flag("--strided", words.request.strided, "Parameters or gradients are not dense");
  command.add_flag("--scaled", words.request.scaled,
                   "Gradients are divided by a GradScaler's scale");
  command
      .add_option("--variant", words.request.variant,
                  "threads=N,lanes=N,vector=N,chunk=N, or some of these; of the CPU width, unroll, "
                  "grain and workers")
      ->delimiter(',');
  command.add_option("--show", words.show, "What is printed; resources and model unless given")
      ->delimiter(',')
      ->check(CLI::IsMember(inspect::section_names()));
  command
      .add_option("--diff", words.other_variant,
                  "A second variant: how what is shown differs there")
      ->delimiter(',');
  command.add_option("--override", words.request.override_file,
                     "An edited flat text, in the place of the kernel's own");
  command.add_flag("--json", words.json, "Prints one object");
}

nlohmann::json json_of(const Subject& subject) {
  const Variant& v = subject.variant;
  nlohmann::json out = {{"kernel", subject.unit.name},
                        {"target", to_string(subject.target)},
                        {"variant",
                         {{"threads", v.threads},
                          {"lanes", v.lanes},
                          {"vector", v.vector},
                          {"chunk", v.chunk},
                          {"width", v.width},
                          {"unroll", v.unroll},
                          {"grain", v.grain},
                          {"workers", v.workers}}},
                        {"why", subject.reason},
                        {"entries", subject.unit.entries},
                        {"edited", subject.edited}};
  if (!subject.note.empty()) out["note"] = subject.note;
  return out;
}

// A text alone is printed bare, so that it can be sent into a file.
void print(const Subject& subject, const std::vector<std::string>& show) {
  const bool bare = show.size() == 1 && show[0] != "resources" && show[0] != "model";
  if (!bare) std::cout << heading(subject);
  for (const std::string& name : show) {
    if (!bare) std::cout << "\n";
    if (show.size() > 1) std::cout << "---- " << name << "\n";
    std::cout << section_text(name, subject);
  }
}

std::string difference(const std::string& name, const Subject& subject, const Subject& other) {
  return inspect::line_diff(section_text(name, subject), section_text(name, other));
}

void print_difference(const Subject& subject, const Subject& other,
                      const std::vector<std::string>& show) {
  std::cout << inspect::line_diff(heading(subject), heading(other));
  for (const std::string& name : show) {
    const std::string differs = difference(name, subject, other);
    std::cout << "\n---- " << name << (differs.empty() ? ": the same" : "") << "\n" << differs;
  }
}

void run(Words words) {
  words.request.target = parse_target(words.target);
  if (words.show.empty()) words.show = {"resources", "model"};
  const Subject subject = inspect::subject(words.request);
  std::optional<Subject> other;
  if (!words.other_variant.empty()) {
    words.request.variant = words.other_variant;
    words.request.variant_word = "--diff";
    other = inspect::subject(words.request);
  }
  if (!words.json)
    return other ? print_difference(subject, *other, words.show) : print(subject, words.show);
  nlohmann::json out = json_of(subject);
  if (other) out["other"] = json_of(*other);
  for (const std::string& name : words.show)
    other ? out["diff"][name] = difference(name, subject, *other)
          : out[name] = section_json(name, subject);
  std::cout << out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

}  // namespace

void add_inspect_command(CLI::App& app, int& status) {
  CLI::App* const command = app.add_subcommand(
      "inspect", "Shows a kernel: its text, what compilers make of it, what it takes, its key");
  command->footer(kFooter);
  const auto words = std::make_shared<Words>();
  add_words(*command, *words);
  command->callback([words, &status] {
    run(*words);
    status = 0;
  });
}

}  // namespace jitstep::tool
