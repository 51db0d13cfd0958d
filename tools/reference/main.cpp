// For developers: writes the generated pages of docs/, or checks that they are current.
//   jitstep-reference [--check] [DOCS]
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "markdown.h"
#include "pages.h"

namespace {

namespace fs = std::filesystem;
using jitstep::reference::kGenerated;
using jitstep::reference::Page;

std::string content_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Generated pages of optimizers that no longer exist.
std::set<fs::path> leftovers(const fs::path& docs, const std::vector<Page>& pages) {
  std::set<fs::path> files;
  if (fs::exists(docs / "optimizers"))
    for (const auto& file : fs::directory_iterator(docs / "optimizers"))
      if (file.is_regular_file() && content_of(file.path()).starts_with(kGenerated))
        files.insert(file.path());
  for (const Page& page : pages) files.erase(docs / page.path);
  return files;
}

int check(const fs::path& docs, const std::vector<Page>& pages) {
  int wrong = 0;
  const auto report = [&](const fs::path& page) {
    std::cerr << page.string() << " is not current. Run build/tools/jitstep-reference docs.\n";
    wrong = 1;
  };
  for (const Page& page : pages)
    if (content_of(docs / page.path) != page.text) report(docs / page.path);
  for (const fs::path& page : leftovers(docs, pages)) report(page);
  return wrong;
}

int write(const fs::path& docs, const std::vector<Page>& pages) {
  for (const fs::path& page : leftovers(docs, pages)) fs::remove(page);
  for (const Page& page : pages) {
    fs::create_directories((docs / page.path).parent_path());
    std::ofstream file(docs / page.path);
    if (!(file << page.text).flush()) {
      std::cerr << "cannot write " << docs / page.path
                << ". Check its permissions and the space on its disk.\n";
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool checks = argc > 1 && argv[1] == std::string("--check");
  const int next = checks ? 2 : 1;
  const std::string docs = argc > next ? argv[next] : "docs";
  if (argc > next + 1 || docs.starts_with("-")) {
    std::cerr << "usage: jitstep-reference [--check] [DOCS]\n";
    return 2;
  }
  try {
    const std::vector<Page> pages = jitstep::reference::all_pages();
    return checks ? check(docs, pages) : write(docs, pages);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
