// jitstep inspect: prints the sources, code, resources and cache key of a kernel.
#include <jit/base/text.h>
#include <jitstep/jit/error.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "flag_values.h"
#include "inspect/line_diff.h"
#include "inspect/sections.h"
#include "json_output.h"
#include "kernel_args.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using inspect::Subject;

constexpr const char* kFooter =
    "No kernel is run, and no GPU is needed. --show takes:\n"
    "  source     the translation unit: includes and one instantiation of the templates\n"
    "  flat       the preprocessed source: one file that compiles alone\n"
    "  ptx, sass  of GPU targets; sass needs nvdisasm\n"
    "  asm        of the target cpu, with the lines of the templates\n"
    "  log        the options and the output of the compiler\n"
    "  resources  registers, spills and occupancy; for the CPU, vector instructions\n"
    "  model      bytes per parameter, and the bandwidth bound that follows\n"
    "  records    measurements by `jitstep tune` or in steps\n"
    "  key        the parts of the cache key, and why each is in it\n\n"
    "To run an edited kernel, run your program with JITSTEP_DUMP=FOLDER. Edit a flat.cuh in that\n"
    "folder, then run the program with JITSTEP_OVERRIDE=FOLDER. `--override flat.cuh` shows the\n"
    "edited kernel.\n\n"
    "Examples:\n"
    "  jitstep inspect --rule lion --state int8 --show sass\n"
    "  jitstep inspect --rule ./mine.cuh --target cpu --show asm\n"
    "  jitstep inspect --state int4 --show ptx --diff vector_elems=8";

struct Args {
  KernelArgs kernel;
  std::vector<std::string> show, other_config;
  bool json = false;
};

void add_args(CLI::App& command, Args& args) {
  add_kernel_args(command, args.kernel);
  command.add_option("--show", args.show, "What to print (default: resources,model)")
      ->type_name("PART,...")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(one_of(inspect::section_names()));
  command
      .add_option("--diff", args.other_config,
                  "Compare with the same kernel in this launch configuration")
      ->type_name("NAME=N,...")
      ->allow_extra_args(false)
      ->delimiter(',');
  add_json_flag(command, args.json);
}

nlohmann::json json_of(const Subject& subject) {
  nlohmann::json out = {{"kernel", subject.unit.name},
                        {"target", to_string(subject.target)},
                        {"config", inspect::config_json(subject.config)},
                        {"why", subject.reason},
                        {"entries", subject.unit.entries},
                        {"edited", subject.edited}};
  if (!subject.note.empty()) out["note"] = subject.note;
  return out;
}

// All sections, so that none is printed if one fails. A single text section has no heading, so that its output can be
// redirected to a file.
std::string to_text(const Subject& subject, const std::vector<std::string>& show) {
  const bool bare = show.size() == 1 && show[0] != "resources" && show[0] != "model";
  std::string out = bare ? "" : heading(subject);
  for (const std::string& name : show) {
    if (!bare) out += "\n";
    if (show.size() > 1) out += "---- " + name + "\n";
    out += section_text(name, subject);
  }
  return out;
}

std::string difference(const std::string& name, const Subject& subject, const Subject& other) {
  return inspect::line_diff(section_text(name, subject), section_text(name, other));
}

std::string to_text(const Subject& subject, const Subject& other,
                    const std::vector<std::string>& show) {
  std::string out = inspect::line_diff(heading(subject), heading(other));
  for (const std::string& name : show) {
    const std::string differs = difference(name, subject, other);
    out += str_cat("\n---- ", name, differs.empty() ? ": the same" : "", "\n", differs);
  }
  return out;
}

void run(Args args) {
  if (args.show.empty()) args.show = {"resources", "model"};
  const Subject subject = inspect::subject(args.kernel);
  std::optional<Subject> other;
  if (!args.other_config.empty()) {
    args.kernel.config = args.other_config;
    args.kernel.config_flag = "--diff";
    other = inspect::subject(args.kernel);
  }
  if (!args.json) {
    std::cout << (other ? to_text(subject, *other, args.show) : to_text(subject, args.show));
    return;
  }
  nlohmann::json out = json_of(subject);
  if (other) out["other"] = json_of(*other);
  for (const std::string& name : args.show)
    other ? out["diff"][name] = difference(name, subject, *other)
          : out[name] = section_json(name, subject);
  std::cout << json_text(out);
}

}  // namespace

void add_inspect_command(CLI::App& app, int& status) {
  CLI::App* const command = add_command(app, kExplore, "inspect", "Print a kernel and its code");
  command->footer(kFooter);
  const auto args = std::make_shared<Args>();
  add_args(*command, *args);
  command->callback([args, &status] {
    run(*args);
    status = kSuccess;
  });
}

}  // namespace jitstep::tool
