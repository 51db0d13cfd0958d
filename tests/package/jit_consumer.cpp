// Uses jitstep::jit as an outside project does: the library brings its templates with it.
#include <jitstep/jit/embedded_templates.h>
#include <jitstep/version.h>

#include <algorithm>
#include <iostream>
#include <string>

int main() {
  const auto templates = jitstep::jit::embedded_templates();
  const bool found = std::any_of(templates.begin(), templates.end(), [](const auto& item) {
    return item.first == "rules/adamw.cuh" && !item.second.empty();
  });
  std::cout << "jitstep " << jitstep::version() << " with " << templates.size() << " templates\n";
  return found && std::string(jitstep::version()) == JITSTEP_VERSION ? 0 : 1;
}
