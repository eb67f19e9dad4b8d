import { build, type BuildOptions, type Plugin } from 'esbuild'
import { readFile } from 'node:fs/promises'
import { relative, resolve } from 'node:path'

/*
 * Bundles programs with their packages into few files: finding, reading and linking some 900 modules takes most of the
 * time of a start.
 */

/** Packages with native parts, or with files that are read from their own directory. */
const unbundled = ['@node-rs/argon2', 'better-sqlite3', 'node-pty', 'swagger-ui-dist']

/** Spelled in parts, since this file is compiled by its own plugin as well. */
const meta = ['import', 'meta'].join('.')

/** Bundled CommonJS packages call it. */
const requireFunction = `import { createRequire as createRequireOfBundle } from 'node:module'
const require = createRequireOfBundle(${meta}.url)`

/** A JavaScript expression for the address that the output of a source would have without bundling. */
type AddressOf = (file: string) => string

export async function bundle(options: BuildOptions, addressOf: AddressOf): Promise<void> {
  await build({
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    banner: { js: requireFunction },
    sourcemap: true,
    sourcesContent: false,
    logLevel: 'warning',
    ...options,
    external: [...unbundled, ...(options.external ?? [])],
    plugins: [addresses(addressOf)],
  })
}

/** Sources find files next to them by their own address, which would be the address of the bundle. */
function addresses(addressOf: AddressOf): Plugin {
  return {
    name: 'addresses',
    setup(plugged) {
      plugged.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        if (path.includes('/node_modules/')) return undefined
        const text = await readFile(path, 'utf8')
        if (!text.includes(meta)) return undefined
        const address = addressOf(relative(resolve('.'), path).replace(/\.ts$/, '.js'))
        return { contents: replaceAddress(text, address), loader: 'ts' }
      })
    },
  }
}

function replaceAddress(text: string, address: string): string {
  return text
    .replaceAll(`${meta}.url`, address)
    .replaceAll(`${meta}.dirname`, `decodeURIComponent(new URL('.', ${address}).pathname).slice(0, -1)`)
}
