// Bundling with esbuild: programs with the packages that they run on, in few files. Most of what a start takes is
// otherwise to find, read and link some 900 modules.
import { build } from 'esbuild'
import { readFile } from 'node:fs/promises'
import { relative, resolve } from 'node:path'

// What has native parts, or files that are looked for beside it.
const unbundled = ['@node-rs/argon2', 'better-sqlite3', 'node-pty', 'swagger-ui-dist']

// CommonJS packages ask for these.
const commonJs = `import { createRequire as createRequireOfBundle } from 'node:module'
const require = createRequireOfBundle(import.meta.url)`

/**
 * @param options esbuild's: `entryPoints`, `outdir` and what differs
 * @param placeOf the address of a source's output as it would be without bundling, as an expression in JavaScript
 */
export async function bundle(options, placeOf) {
  await build({
    ...{ bundle: true, splitting: true, format: 'esm', platform: 'node', target: 'node20' },
    ...{ banner: { js: commonJs }, sourcemap: true, sourcesContent: false, logLevel: 'warning' },
    ...options,
    external: [...unbundled, ...(options.external ?? [])],
    plugins: [places(placeOf)],
  })
}

// Sources name what is beside them by their own address, which is not that of the file they end up in.
function places(placeOf) {
  return {
    name: 'places',
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        if (path.includes('/node_modules/')) return undefined
        const text = await readFile(path, 'utf8')
        if (!text.includes('import.meta')) return undefined
        const place = placeOf(relative(resolve('.'), path).replace(/\.ts$/, '.js'))
        return { contents: replacePlace(text, place), loader: 'ts' }
      })
    },
  }
}

function replacePlace(text, place) {
  return text
    .replaceAll('import.meta.url', place)
    .replaceAll('import.meta.dirname', `decodeURIComponent(new URL('.', ${place}).pathname).slice(0, -1)`)
}
