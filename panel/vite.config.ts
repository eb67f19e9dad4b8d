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
    // No file is inlined: the content security policy forbids inline scripts, and images are separate files, too.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // This limit is above the size of the largest script: xterm with its renderer, which only terminals load.
    chunkSizeWarningLimit: 600,
  },
})
