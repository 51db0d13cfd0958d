// jitstep compile: writes a kernel's binary to a file, for use by other tools. Needs no GPU.
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "in_range.h"
#include "inspect/sections.h"
#include "json_output.h"
#include "report_file.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using inspect::Subject;
namespace fs = std::filesystem;

constexpr const char* kFooter =
    "Needs no GPU. GPU targets need NVRTC. `jitstep inspect` takes the same flags and prints the\n"
    "kernel instead of writing it.\n\n"
    "Examples:\n"
    "  jitstep compile --rule lion --state int8 --target sm_90 --out binaries\n"
    "  jitstep compile '{\"rule\": \"sgd\"}' --target cpu --json";

struct Request {
  KernelArgs kernel;
  std::string out = ".";
  bool json = false;
};

std::string write_image(const Built& built, const std::string& folder) {
  const std::string path = (fs::path(folder) / (built.key + ".bin")).string();
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw Error(str_cat("cannot create the folder ", folder, ": ", failure.message()));
  write_output(path, built.binary.image);
  return path;
}

nlohmann::json to_json(const Resources& entry) {
  return {{"entry", entry.entry},
          {"registers", entry.registers},
          {"spill_bytes", entry.spill_store_bytes + entry.spill_load_bytes},
          {"stack_bytes", entry.stack_bytes},
          {"shared_bytes", entry.shared_bytes}};
}

nlohmann::json to_json(const Subject& subject, const Built& built, const std::string& file) {
  nlohmann::json resources = nlohmann::json::array();
  for (const Resources& entry : built.binary.resources) resources.push_back(to_json(entry));
  return {{"kernel", subject.unit.name},
          {"target", to_string(subject.target)},
          {"config", inspect::config_json(subject.config)},
          {"file", file},
          {"bytes", built.binary.image.size()},
          {"entries", subject.unit.entries},
          {"resources", resources}};
}

void print(const Subject& subject, const Built& built, const std::string& file) {
  std::cout << "kernel  " << subject.unit.name << "\ntarget  " << to_string(subject.target)
            << "\nconfig  " << to_string(subject.config) << "\nfile    " << file << ", "
            << counted(built.binary.image.size(), "byte") << "\n";
  if (!subject.note.empty()) std::cout << "note    " << subject.note << "\n";
  std::vector<std::vector<std::string>> rows = {
      {"entry", "registers", "spill bytes", "stack bytes", "shared bytes"}};
  for (const Resources& one : built.binary.resources)
    rows.push_back({one.entry, str_cat(one.registers),
                    str_cat(one.spill_store_bytes + one.spill_load_bytes), str_cat(one.stack_bytes),
                    str_cat(one.shared_bytes)});
  if (rows.size() > 1) std::cout << "\n" << text_table(rows, {1, 2, 3, 4});
}

void run(const Request& request) {
  const Subject subject = inspect::subject(request.kernel);
  const auto built = subject.built();
  const std::string file = write_image(*built, request.out);
  if (request.json)
    std::cout << json_text(to_json(subject, *built, file));
  else
    print(subject, *built, file);
}

}  // namespace

void add_compile_command(CLI::App& app, int& status) {
  CLI::App* const command = add_command(app, kExtend, "compile", "Compile a kernel to a file");
  command->footer(kFooter);
  const auto request = std::make_shared<Request>();
  add_kernel_args(*command, request->kernel);
  command->add_option("--out", request->out, "Folder for the binary, which is named by its key")
      ->type_name("FOLDER")
      ->check(not_empty())
      ->capture_default_str();
  add_json_flag(*command, request->json);
  command->callback([request, &status] {
    run(*request);
    status = kSuccess;
  });
}

}  // namespace jitstep::tool
