import { extname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

/*
 * Programs of the repository that tests start: compiled if the tests themselves are (scripts/test), and otherwise from
 * the sources through tsx. Other files than TypeScript are next to the tests in either case.
 */

const extension = extname(import.meta.url)
export const areCompiled = extension === '.js'

/** Node's options before a program. */
export const nodeOptions: readonly string[] = areCompiled ? ['--enable-source-maps'] : ['--import', 'tsx']

/** @param source relative to the root of the repository: `test/support/memory/lab-agent-main.ts` */
export function programPath(source: string): string {
  return resolve(import.meta.dirname, '../..', source.replace(/\.ts$/, extension))
}

/** For `import … from` in a generated program. @param source as above */
export function moduleUrl(source: string): string {
  return pathToFileURL(programPath(source)).href
}

/** All arguments for node to run a program. @param source as above */
export function nodeArguments(source: string, ...args: readonly string[]): string[] {
  return [...nodeOptions, programPath(source), ...args]
}

/** All arguments for node to run a module's text, which is JavaScript. */
export function nodeEval(text: string): string[] {
  return [...nodeOptions, '--input-type=module', '-e', text]
}
