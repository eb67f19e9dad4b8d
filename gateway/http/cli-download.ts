import { existsSync, readFileSync } from 'node:fs'
import type { Page } from './app.js'
import { fixed } from './docs.js'

/** Name of the file that the build writes next to the gateway: the command line as one file. */
export const downloadFile = 'berth-cli.cjs'

/** Placeholder for the version in the file, because packages get their version after the build. */
export const versionPlaceholder = '@BERTH_VERSION@'

/**
 * Offers the command line in the version of the gateway. The download needs no key, because it contains no secrets.
 * @param file path of the built file
 * @returns an empty list if the file was not built
 */
export function cliPages(file: string, version: string): Page[] {
  if (!existsSync(file)) return []
  const reply = fixed(() => readFileSync(file, 'utf8').replaceAll(versionPlaceholder, version), 'text/javascript')
  return [
    {
      path: '/cli',
      handle: async (ctx) => {
        const { status, headers, body } = await reply(ctx)
        return { status, headers: { ...headers, ...downloadHeaders }, body }
      },
    },
  ]
}

const downloadHeaders = {
  'Content-Disposition': 'attachment; filename="berth"',
  'X-Content-Type-Options': 'nosniff',
}
