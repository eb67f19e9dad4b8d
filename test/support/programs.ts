import { extname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

/*
 * Programs of the repository that tests start. If the tests themselves are compiled (scripts/test), the programs are,
 * too. Otherwise tsx runs the sources. In both cases, files other than TypeScript are next to the tests.
 */

const extension = extname(import.meta.url)
export const areCompiled = extension === '.js'

/** Options for node that come before the program. */
export const nodeOptions: readonly string[] = areCompiled ? [] : ['--import', 'tsx']

/** @param source relative to the root of the repository, such as `test/support/memory/lab-agent-main.ts` */
export function programPath(source: string): string {
  return resolve(import.meta.dirname, '../..', source.replace(/\.ts$/, extension))
}

/** Returns a URL for `import … from` in a generated program. @param source see `programPath` */
export function moduleUrl(source: string): string {
  return pathToFileURL(programPath(source)).href
}

/** Returns all arguments for node to run a program. @param source see `programPath` */
export function nodeArguments(source: string, ...args: readonly string[]): string[] {
  return [...nodeOptions, programPath(source), ...args]
}

/** Returns all arguments for node to run the text of a JavaScript module. */
export function nodeEval(text: string): string[] {
  return [...nodeOptions, '--input-type=module', '-e', text]
}
