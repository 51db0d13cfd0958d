#include "optim/state/part_file.h"

#include <caffe2/serialize/file_adapter.h>
#include <caffe2/serialize/inline_container.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "optim/state/archive_file.h"

namespace jitstep {
namespace {

namespace fs = std::filesystem;
using caffe2::serialize::FileAdapter;
using caffe2::serialize::PyTorchStreamReader;
using caffe2::serialize::PyTorchStreamWriter;
using nlohmann::json;

constexpr std::int64_t kSchema = 1;
constexpr const char* kOrigin = "part.json";
constexpr const char* kAdvice = ". Load another checkpoint, or save the optimizer again.";

std::string path_of(const std::string& folder, const PartId& id) {
  return (fs::path(folder) / id.file_name()).string();
}

json origin_of(const PartId& id) {
  return {{"schema", kSchema}, {"save", id.save}, {"part", id.number}, {"parts", id.count}};
}

}  // namespace

void write_part(const std::string& folder, const PartId& id,
                const std::vector<PartRecord>& records) {
  write_file(path_of(folder, id), [&](const ByteSink& sink) {
    PyTorchStreamWriter writer(sink);
    const std::string origin = origin_of(id).dump();
    writer.writeRecord(kOrigin, origin.data(), origin.size());
    for (const PartRecord& record : records) {
      const torch::Tensor values = record.values.cpu();
      writer.writeRecord(record.name, values.const_data_ptr(), values.nbytes());
    }
    writer.writeEndOfFile();
  });
}

struct PartFile::Impl {
  explicit Impl(const std::string& file)
      : path(file), bytes(std::make_shared<FileAdapter>(file)), zip(bytes) {}

  // Where a record begins. Its length is checked, because a damaged directory may have any.
  std::pair<std::size_t, std::size_t> find(const std::string& name) {
    if (!zip.hasRecord(name)) throw std::runtime_error("it has no " + name);
    const std::size_t begin = zip.getRecordOffset(name), size = zip.getRecordSize(name);
    if (begin > bytes->size() || size > bytes->size() - begin)
      throw std::runtime_error(name + " goes beyond its end");
    return {begin, size};
  }

  template <class Action>
  auto reading(Action&& action) {
    try {
      return action();
    } catch (const std::exception& error) {
      TORCH_CHECK(false, "jitstep: cannot read ", path,
                  ", a part of the checkpoint: ", first_line(error), kAdvice);
    }
  }

  std::string path;
  std::shared_ptr<FileAdapter> bytes;
  PyTorchStreamReader zip;
};

PartFile::PartFile(const std::string& folder, const PartId& id) {
  const std::string path = path_of(folder, id);
  const std::string missing = file_problem(path);
  TORCH_CHECK(missing.empty(), "jitstep: the checkpoint in ", folder, " is incomplete: ", path,
              ": ", missing, kAdvice);
  try {
    impl_ = std::make_unique<Impl>(path);
    const auto [begin, size] = impl_->find(kOrigin);
    std::string text(size, '\0');
    impl_->bytes->read(begin, text.data(), size);
    const json origin = json::parse(text);
    const auto schema = origin.at("schema").get<std::int64_t>();
    if (schema > kSchema)
      throw std::runtime_error("it has schema " + std::to_string(schema) +
                               ", and this version of jitstep reads at most " +
                               std::to_string(kSchema) + ". Update jitstep");
    if (origin != origin_of(id))
      throw std::runtime_error("it is part " + origin.at("part").dump() + " of " +
                               origin.at("parts").dump() + " of save " +
                               origin.at("save").get<std::string>() + ", and not the one of " +
                               "its name. Parts of two checkpoints do not fit together");
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "jitstep: cannot read ", path,
                ", a part of the checkpoint: ", first_line(error), kAdvice);
  }
}

PartFile::PartFile(PartFile&&) noexcept = default;
PartFile& PartFile::operator=(PartFile&&) noexcept = default;
PartFile::~PartFile() = default;

bool PartFile::has(const std::string& name) {
  return impl_->reading([&] { return impl_->zip.hasRecord(name); });
}

std::int64_t PartFile::bytes(const std::string& name) {
  return impl_->reading([&] { return static_cast<std::int64_t>(impl_->find(name).second); });
}

void PartFile::read(const std::string& name, std::int64_t first, std::int64_t count, void* to) {
  impl_->reading([&] {
    const auto [begin, size] = impl_->find(name);
    if (first < 0 || count < 0 || first + count > static_cast<std::int64_t>(size))
      throw std::runtime_error(name + " has " + std::to_string(size) + " bytes instead of " +
                               std::to_string(first + count));
    impl_->bytes->read(begin + static_cast<std::size_t>(first), to,
                       static_cast<std::size_t>(count));
  });
}

}  // namespace jitstep
