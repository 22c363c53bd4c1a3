import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

const controller = "http://127.0.0.1:8070";

export default defineConfig({
  plugins: [svelte()],
  build: { target: "es2022", reportCompressedSize: false },
  // `npm run dev` forwards these requests to a controller on this machine.
  server: {
    proxy: Object.fromEntries(
      // The Host header field stays that of the page, so that the controller sees requests of the same origin.
      ["/state", "/scenarios", "/register", "/start", "/stop", "/report"].map((path) => [path, { target: controller, changeOrigin: false }]),
    ),
  },
});
