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
    // No file is inlined, because the content security policy forbids inline scripts. Images are separate files, too.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // The limit in kB is above the size of the largest script. This is xterm with its renderer, for terminals only.
    chunkSizeWarningLimit: 600,
  },
})
