#include "jitstep/jit/manifest.h"

#include "jit/base/text.h"

namespace jitstep::jit {

int Domain::reduction_layout() const {
  switch (kind) {
    case Kind::all:
    case Kind::tensor:
      return 0;
    case Kind::first:
      return 1;
    case Kind::rows:
      return 2;
    case Kind::columns:
      return 3;
    case Kind::matrices:
      return 4;
    case Kind::axis:
      break;
  }
  return 5 + axis;
}

unsigned Domain::reduced(int dims) const {
  const unsigned every = (1u << dims) - 1u;
  const bool vector = dims < 2;
  switch (kind) {
    case Kind::all:
    case Kind::tensor:
      return every;
    case Kind::first:
      return vector ? every : every & ~1u;
    case Kind::rows:
      return dims < 1 ? 0u : 1u << (dims - 1);
    case Kind::columns:
      return vector ? 0u : 1u << (dims - 2);
    case Kind::matrices:
      return vector ? every : 3u << (dims - 2);
    case Kind::axis:
      break;
  }
  return axis < dims ? every & ~(1u << axis) : every;
}

std::string to_string(const Domain& domain) {
  const std::string_view name = kDomainNames[static_cast<std::size_t>(domain.kind)];
  return domain.kind == Domain::Kind::axis ? str_cat(name, "<", domain.axis, ">")
                                           : std::string(name);
}

}  // namespace jitstep::jit
