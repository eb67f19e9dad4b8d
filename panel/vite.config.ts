import { svelte } from '@sveltejs/vite-plugin-svelte'
import { resolve } from 'node:path'
import { defineConfig } from 'vite'
import { boundInitialScript } from './build/initial-script.ts'
import { precompress } from './build/precompress.ts'

const repository = resolve(import.meta.dirname, '..')

export default defineConfig({
  root: import.meta.dirname,
  cacheDir: resolve(repository, 'node_modules/.cache/vite'),
  plugins: [svelte(), boundInitialScript(100 * 1024), precompress()],
  build: {
    outDir: resolve(repository, 'dist/panel'),
    emptyOutDir: true,
    target: 'es2022',
    // The policy forbids inline scripts, and an image in a style is a file like all others.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Terminals: xterm and its renderer, loaded when one is opened.
    chunkSizeWarningLimit: 600,
  },
})
