#include "sections.h"

#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/kernel_config.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "../compilers.h"
#include "../usage.h"
#include "assembly.h"
#include "disassembler.h"
#include "figures.h"
#include "key_report.h"
#include "measured.h"

namespace jitstep::tool::inspect {
namespace {

using namespace jitstep::jit;

void need(bool gpu, const char* section, const Subject& subject) {
  if (subject.target.is_cuda() == gpu) return;
  throw UsageError(str_cat(
      "--show ", section, " is for ", gpu ? "GPU targets, as in --target sm_90" : "--target cpu",
      ". Use --show ", gpu ? "asm" : "ptx or sass", " for ", to_string(subject.target), "."));
}

std::string ptx(const Subject& subject) {
  need(true, "ptx", subject);
  return ptx_of(subject.preprocessed, subject.unit.name, subject.target);
}

std::string sass(const Subject& subject) {
  need(true, "sass", subject);
  return disassembled(*subject.built());
}

std::string assembly(const Subject& subject) {
  need(false, "asm", subject);
  return with_source_lines(assembly_of(subject.preprocessed, subject.unit.name, subject.target),
                           subject.preprocessed);
}

// The options that compile the preprocessed source alone, then the compiler's output.
std::string log(const Subject& subject) {
  const std::string identity = compiler_identity(subject.target);
  const std::size_t options = identity.rfind("options: ");
  const std::string command = subject.target.is_cuda() ? "NVRTC, on flat.cuh: --gpu-architecture="
                                                       : "c++ -x c++ flat.cuh -o kernel.so ";
  const auto built = subject.built();
  const std::string& output = built->binary.log;
  return str_cat(command, identity.substr(options + 9), "\n", output,
                 output.empty() || output.ends_with('\n') ? "" : "\n",
                 built->from_cache ? "from the cache, compiled in " : "compiled in ",
                 fixed(built->compile_ms, 0), " ms, ", built->binary.image.size(), " bytes\n");
}

struct Section {
  const char* name;
  std::string (*text)(const Subject&);
  nlohmann::json (*json)(const Subject&);  // null: JSON has the text as a string
};

std::string key_text(const Subject& subject) { return to_text(key_report(subject)); }
nlohmann::json key_json(const Subject& subject) { return to_json(key_report(subject)); }

constexpr Section kSections[] = {
    {"source", [](const Subject& s) { return s.unit.text; }, nullptr},
    {"flat", [](const Subject& s) { return s.preprocessed; }, nullptr},
    {"ptx", &ptx, nullptr},
    {"sass", &sass, nullptr},
    {"asm", &assembly, nullptr},
    {"log", &log, nullptr},
    {"resources", &resources_text, &resources_json},
    {"model", &model_text, &model_json},
    {"records", &records_text, &records_json},
    {"key", &key_text, &key_json},
};

const Section& section(const std::string& name) {
  return *std::find_if(std::begin(kSections), std::end(kSections),
                       [&](const Section& one) { return one.name == name; });
}

}  // namespace

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Section& one : kSections) names.emplace_back(one.name);
  return names;
}

std::string section_text(const std::string& name, const Subject& subject) {
  return section(name).text(subject);
}

nlohmann::json section_json(const std::string& name, const Subject& subject) {
  const Section& one = section(name);
  return one.json == nullptr ? nlohmann::json(one.text(subject)) : one.json(subject);
}

nlohmann::json config_json(const KernelConfig& config) {
  nlohmann::json out;
  for (const ConfigField& field : config_fields()) out[field.name] = config.*field.member;
  return out;
}

std::string heading(const Subject& subject) {
  return str_cat("kernel   ", subject.unit.name, "\ntarget   ", to_string(subject.target),
                 "\nconfig   ", to_string(subject.config), "\nwhy      ", subject.reason, "\n",
                 subject.edited ? "source   edited, given by --override\n" : "",
                 subject.note.empty() ? "" : "note     " + subject.note + "\n");
}

}  // namespace jitstep::tool::inspect
