// A file mapped for reading. Pages come in as they are touched and belong to the file, so weights that lie as
// they are needed cost no copy. The file must not be overwritten in place while mapped (replacing it by a
// rename is fine).
#pragma once
#include <cstdint>
#include <string>

namespace openclaw {

class FileMap {
 public:
  // Throws E_FILE when the file cannot be opened or mapped, or is empty.
  explicit FileMap(const std::string& path);
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  const uint8_t* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  const uint8_t* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace openclaw
