#include "jit/manifest/manifest_names.h"

namespace jitstep::jit {

void refuse_in_archives(const std::string& name, const Location& location) {
  if (const auto problem = archive_problem(name); !problem.empty())
    location.fail("`" + name + "` " + problem + ". Rename it.");
}

}  // namespace jitstep::jit
