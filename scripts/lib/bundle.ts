import { build, type BuildOptions, type BuildResult, type Plugin } from 'esbuild'
import { readFile } from 'node:fs/promises'
import { relative, resolve } from 'node:path'

/*
 * Bundles programs and their packages into few files. Without bundles, a program would spend most of its start on
 * finding, reading and linking some 900 modules.
 */

/** Packages that cannot be bundled, because they have native parts or read files from their own directory. */
const unbundled = ['@node-rs/argon2', 'better-sqlite3', 'node-pty', 'swagger-ui-dist']

/** Joined at run time. The plugin `addresses` would otherwise replace the text `import.meta` in this source file. */
const meta = ['import', 'meta'].join('.')

/** Defines `require`, which bundled CommonJS packages call. */
const requireFunction = `import { createRequire as createRequireOfBundle } from 'node:module'
const require = createRequireOfBundle(${meta}.url)`

/** Returns a JavaScript expression for the URL that a source file would have without bundling. */
type AddressOf = (file: string) => string

export async function bundle(options: BuildOptions, addressOf: AddressOf): Promise<BuildResult> {
  return build({
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
    plugins: [...(options.plugins ?? []), addresses(addressOf)],
  })
}

/** Replaces `import.meta`, with which sources find files next to them. Otherwise, it would refer to the bundle. */
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
