// The reader accepts every prefix of every shipped file, or throws an error. manifest_test.cpp has every eighth prefix.
#include <gtest/gtest.h>

#include "jit/manifest/manifest_reader.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {
namespace {

using Kind = Manifest::Kind;

void read_anything(const std::string& content, const std::string& path, Kind kind) {
  try {
    read_manifest(content, path, kind);
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with(path + ":")) << error.what();
  }
}

TEST(ManifestPrefixes, OfEveryShippedFileAreReadOrRefused) {
  const TemplateStore store;
  std::size_t files = 0;
  for (const auto& [folder, kind] :
       {std::pair{"rules/", Kind::rule}, {"codecs/", Kind::codec}, {"weights/", Kind::weights}})
    for (const std::string& path : store.list(folder)) {
      if (path.starts_with("codecs/support/")) continue;
      ++files;
      const std::string content = *store.find(path);
      for (std::size_t size = 0; size < content.size(); ++size)
        read_anything(content.substr(0, size), path, kind);
    }
  EXPECT_GT(files, 60u);
}

}  // namespace
}  // namespace jitstep::jit
