{
  # node-gyp's build: what `npm install` falls back to when no prebuilt binary fits. Sources come from native/sources.json, which
  # CMakeLists.txt reads too. The SIMD files are compiled once per instruction set (native/base/cpu.h says which runs).
  "variables": {
    "warnings": ["-Wall", "-Wextra", "-Wno-psabi", "-Wno-missing-field-initializers"],
  },
  "target_defaults": {
    "include_dirs": ["."],
    "cflags!": ["-fno-exceptions"], "cflags_cc!": ["-fno-exceptions", "-fno-rtti", "-std=gnu++17", "-std=gnu++14"],
    "cflags": ["-O3", "-fPIC", "-fvisibility=hidden", "<@(warnings)"],
    "cflags_cc": ["-std=c++20"],
    "xcode_settings": { "GCC_ENABLE_CPP_EXCEPTIONS": "YES", "CLANG_CXX_LANGUAGE_STANDARD": "c++20", "MACOSX_DEPLOYMENT_TARGET": "12.0", "GCC_SYMBOLS_PRIVATE_EXTERN": "YES" },
  },
  "targets": [
    {
      "target_name": "openclaw_rl",
      "sources": ["<!@(node -p \"const s=require('./native/sources.json');[...s.base,...s.kernels,...s.model,...s.addon].join(' ')\")"],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
      "defines": ["NAPI_VERSION=8", "NODE_ADDON_API_DISABLE_DEPRECATED", "NAPI_CPP_EXCEPTIONS"],
      "conditions": [
        ["target_arch=='x64'", { "dependencies": ["simd_v2", "simd_v3", "simd_v4"] }],
        ["target_arch=='arm64'", { "dependencies": ["simd_neon"] }],
      ],
    },
  ],
  "conditions": [
    ["target_arch=='x64'", {
      "targets": [
        { "target_name": "simd_v2", "type": "static_library", "defines": ["OPENCLAW_ISA=v2"], "cflags": ["-march=x86-64-v2", "-ffp-contract=fast"],
          "sources": ["<!@(node -p \"require('./native/sources.json').simd.join(' ')\")"] },
        { "target_name": "simd_v3", "type": "static_library", "defines": ["OPENCLAW_ISA=v3"], "cflags": ["-march=x86-64-v3", "-ffp-contract=fast"],
          "sources": ["<!@(node -p \"require('./native/sources.json').simd.join(' ')\")"] },
        { "target_name": "simd_v4", "type": "static_library", "defines": ["OPENCLAW_ISA=v4"], "cflags": ["-march=x86-64-v4", "-mprefer-vector-width=512", "-ffp-contract=fast"],
          "sources": ["<!@(node -p \"require('./native/sources.json').simd.join(' ')\")"] },
      ],
    }],
    ["target_arch=='arm64'", {
      "targets": [
        { "target_name": "simd_neon", "type": "static_library", "defines": ["OPENCLAW_ISA=neon"], "cflags": ["-ffp-contract=fast"],
          "sources": ["<!@(node -p \"require('./native/sources.json').simd.join(' ')\")"] },
      ],
    }],
  ],
}
