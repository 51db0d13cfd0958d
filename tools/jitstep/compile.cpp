// jitstep compile: a kernel's binary as a file, for other tools to read. Needs no GPU.
#include <jit/base/file_io.h>
#include <jit/base/text.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/unit.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "spec_plan.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
namespace fs = std::filesystem;

struct Request {
  std::string spec;
  OptimizerWords words;
  bool by_words = false;  // not by the spec
  std::string out = ".", target = "sm_90";
  std::vector<int> variant;  // threads, lanes, vector, chunk; the default if empty
};

AskedOptimizer optimizer_of(const Request& request) {
  AskedOptimizer asked =
      request.by_words ? optimizer_of_words(request.words) : optimizer_of_spec(request.spec);
  asked.parameter = request.words.parameter;
  asked.gradient = request.words.gradient;
  return asked;
}

Variant variant_of(const Request& request, const Plan& plan, const Target& target) {
  if (request.variant.empty()) return default_variant(plan, target);
  const auto& v = request.variant;
  return {v[0], v[1], v[2], v[3]};
}

std::string write_image(const Built& built, const std::string& folder) {
  const std::string path = (fs::path(folder) / (built.key + ".bin")).string();
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw Error(text("cannot make the folder ", folder, ": ", failure.message()));
  const auto& image = built.binary.image;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(image.data()),
             static_cast<std::streamsize>(image.size()));
  if (!file.flush()) throw Error(text("cannot write ", path, ": ", failure_advice(errno)));
  return path;
}

nlohmann::json to_json(const Resources& entry) {
  return {{"entry", entry.entry},
          {"registers", entry.registers},
          {"spill_bytes", entry.spill_store_bytes + entry.spill_load_bytes},
          {"stack_bytes", entry.stack_bytes},
          {"shared_bytes", entry.shared_bytes}};
}

void run(const Request& request) {
  const Target target = parse_target(request.target);
  const Plan plan = plan_of(optimizer_of(request));
  const Variant variant = variant_of(request, plan, target);
  const Unit made = unit(plan, variant, target);
  const auto built = default_engine().build(made.text, made.name, target);
  nlohmann::json resources = nlohmann::json::array();
  for (const Resources& entry : built->binary.resources) resources.push_back(to_json(entry));
  const nlohmann::json out = {{"name", made.name},
                              {"target", to_string(target)},
                              {"file", write_image(*built, request.out)},
                              {"threads", variant.threads},
                              {"lanes", variant.lanes},
                              {"vector", variant.vector},
                              {"chunk", variant.chunk},
                              {"entries", made.entries},
                              {"resources", resources}};
  std::cout << out.dump(2) << "\n";
}

}  // namespace

void add_compile_command(CLI::App& app, int& status) {
  CLI::App* const command = app.add_subcommand(
      "compile", "Writes a kernel's binary into a folder and prints its resources as JSON");
  const auto request = std::make_shared<Request>();
  CLI::Option* const spec = command->add_option(
      "spec", request->spec, "The kernel, as {\"rule\": \"adamw\", \"state\": \"int8\"}");
  add_spec_words(*command, *spec, request->words);
  command->add_option("--target", request->target, "sm_ with a number, cpu or emulated")
      ->capture_default_str();
  command->add_option("--variant", request->variant, "threads,lanes,vector,chunk")
      ->delimiter(',')
      ->expected(4);
  command->add_option("--out", request->out, "The folder")->capture_default_str();
  command->callback([request, command, &status] {
    request->by_words = has_spec_words(*command);
    if (!request->by_words && request->spec.empty())
      throw CLI::RequiredError("A spec, or --rule and the like,");
    run(*request);
    status = 0;
  });
}

}  // namespace jitstep::tool
