// Drives a page in Debian's Chromium with Playwright. Reads one command per line and writes one result per line, both JSON objects.
// {"do": "open", "url"} {"do": "click", "button"} {"do": "choose", "field", "option"} {"do": "fill", "field", "value"}
// {"do": "press", "key"} {"do": "upload", "path"} {"do": "text", "of"} {"do": "screenshot", "path", "width", "height", "scheme"} {"do": "complaints"}

import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const browser = await chromium.launch({
  executablePath: process.argv[2],
  // Tests run as root in containers; the only pages are our own.
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
page.setDefaultTimeout(20_000);

const complaints = [];
page.on("pageerror", (error) => complaints.push(String(error)));
// Failed requests are expected: some tests stop the controller, or send it requests that it rejects.
page.on("console", (message) => {
  if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) complaints.push(message.text());
});

const actions = {
  open: ({ url }) => page.goto(url).then(() => null),
  click: ({ button }) => page.getByRole("button", { name: button, exact: true }).click(),
  choose: ({ field, option }) => page.getByRole("combobox", { name: field, exact: true }).selectOption(option).then(() => null),
  fill: ({ field, value }) => page.getByRole("spinbutton", { name: field }).fill(value),
  press: ({ key }) => page.keyboard.press(key),
  upload: ({ path }) => page.locator("input[type=file]").setInputFiles(path),
  text: async ({ of }) => {
    const found = page.locator(of);
    return (await found.count()) === 0 ? "" : (await found.allInnerTexts()).join("\n");
  },
  screenshot: async ({ path, width, height, scheme }) => {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height });
    // One frame, so that plots have their new size.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await page.screenshot({ path, fullPage: true });
    await page.emulateMedia({ colorScheme: "light" });
    await page.setViewportSize({ width: 1280, height: 800 });
    return null;
  },
  complaints: async () => complaints,
};

console.log(JSON.stringify({ value: "ready" }));
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  try {
    console.log(JSON.stringify({ value: (await actions[order.do](order)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
await browser.close();
