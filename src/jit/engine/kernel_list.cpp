#include "jit/engine/kernel_list.h"

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "jit/base/file_io.h"
#include "jit/base/private_files.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {

using nlohmann::json;

void write_kernel_list(const std::vector<std::shared_ptr<const Built>>& kernels,
                       const std::string& file) {
  std::string lines;
  std::set<std::string> known;
  for (const auto& kernel : kernels) {
    const json one = {{"name", kernel->name},
                      {"target", to_string(kernel->target)},
                      {"unit", kernel->unit},
                      {"source", *kernel->text}};
    const std::string line = one.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    if (known.insert(line).second) lines += line;
  }
  if (const auto problem = write_atomically(file, bytes_of(lines)))
    throw Error(str_cat("cannot write the list of kernels ", file, ": ", *problem));
}

std::vector<KernelText> read_kernel_list(const std::string& file) {
  std::istringstream lines(read_code_file(file));
  std::vector<KernelText> kernels;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    try {
      const json one = json::parse(line);
      kernels.push_back({one.at("name"), parse_target(one.at("target").get<std::string>()),
                         one.at("unit"), one.at("source")});
    } catch (const json::exception&) {
      throw Error(str_cat(file, ":", number,
                          ": the line is not a kernel as write_kernels() writes it. Write the list "
                          "again."));
    } catch (const Error& error) {
      throw Error(str_cat(file, ":", number, ": ", error.what()));
    }
  }
  return kernels;
}

}  // namespace jitstep::jit
