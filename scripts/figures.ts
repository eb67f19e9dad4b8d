import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import ts from 'typescript'

/*
 * Prints the figures about the size of the code in docs/development.md, for the repository in the current directory.
 *   node --import tsx scripts/figures.ts
 */

const isTest = (file: string): boolean => file.startsWith('test/') || /\.test\.ts$/.test(file)
const isSource = (file: string): boolean =>
  /\.(ts|mjs|svelte|pl|sh|proto)$|^scripts\/\w+$/.test(file) && !/^docs\/|\.gen\.ts$|^test\/browser\/out\//.test(file)

interface SourceFile {
  readonly file: string
  readonly lines: number
  readonly parsed: ts.SourceFile | undefined
}

function readSources(): SourceFile[] {
  const files = execFileSync('git', ['ls-files'], { encoding: 'utf8' }).split('\n').filter(isSource)
  return files.map((file) => {
    const text = readFileSync(file, 'utf8')
    const parsed = file.endsWith('.ts') ? ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true) : undefined
    return { file, lines: text.split('\n').length - 1, parsed }
  })
}

/** Counts named functions: declarations, methods, accessors, constructors, and functions in constants and fields. */
function countFunctions({ parsed }: SourceFile): number {
  let count = 0
  const visit = (node: ts.Node): void => {
    const isNamed =
      ts.isFunctionDeclaration(node) ||
      ts.isMethodDeclaration(node) ||
      ts.isAccessor(node) ||
      ts.isConstructorDeclaration(node)
    const isValue =
      (ts.isArrowFunction(node) || ts.isFunctionExpression(node)) &&
      (ts.isVariableDeclaration(node.parent) || ts.isPropertyDeclaration(node.parent))
    if (isNamed || isValue) count += 1
    ts.forEachChild(node, visit)
  }
  if (parsed) visit(parsed)
  return count
}

/** Counts the exported names that exactly one other file imports by name. */
function countSingleUse(sources: readonly SourceFile[]): number {
  const users = new Map<string, Set<string>>()
  for (const { file, parsed } of sources)
    for (const name of parsed ? importedNames(file, parsed) : [])
      users.set(name, (users.get(name) ?? new Set()).add(file))
  return [...users.values()].filter(({ size }) => size === 1).length
}

function importedNames(file: string, parsed: ts.SourceFile): string[] {
  return parsed.statements.filter(ts.isImportDeclaration).flatMap((statement) => {
    const path = (statement.moduleSpecifier as ts.StringLiteral).text
    const named = statement.importClause?.namedBindings
    if (!path.startsWith('.') || !named || !ts.isNamedImports(named)) return []
    const target = new URL(path, `file:///${file}`).pathname
    return named.elements.map(({ name, propertyName }) => `${target}#${(propertyName ?? name).text}`)
  })
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)

function print(): void {
  const sources = readSources()
  for (const [part, files] of [
    ['product', sources.filter(({ file }) => !isTest(file))],
    ['tests', sources.filter(({ file }) => isTest(file))],
  ] as const) {
    const lengths = files.map(({ lines }) => lines)
    console.log(`${part}: files`, files.length)
    console.log(`${part}: lines`, sum(lengths))
    console.log(`${part}: named functions`, sum(files.map(countFunctions)))
    console.log(`${part}: files over 300 lines`, lengths.filter((lines) => lines > 300).length)
    console.log(`${part}: exports imported by one file only`, countSingleUse(files))
  }
}

print()
