import js from '@eslint/js'
import svelte from 'eslint-plugin-svelte'
import tseslint from 'typescript-eslint'
import svelteConfig from './panel/svelte.config.js'

const processSpawners = ['child_process', 'node:child_process', 'node-pty']

// Rules that need types are in .oxlintrc.json: oxlint checks them several times as fast.
export default tseslint.config(
  { ignores: ['dist/', 'proto/gen/', 'node_modules/', 'coverage/', '**/*.gen.ts', '**/*.cjs'] },
  js.configs.recommended,
  ...tseslint.configs.recommended,
  ...svelte.configs.recommended,
  {
    rules: {
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      'no-empty': ['error', { allowEmptyCatch: false }],
      complexity: ['error', 12],
      'max-params': ['error', 4],
      'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],
      // A member that is private has a #; what a constructor takes and keeps is `private readonly` in its parameters.
      'no-restricted-syntax': [
        'error',
        {
          selector: ':matches(PropertyDefinition, MethodDefinition[kind!=constructor])[accessibility=private]',
          message: 'a private member has a name with #',
        },
      ],
    },
  },
  {
    // Only one module of each program starts processes.
    files: ['agent/**/*.ts', 'cli/**/*.ts', 'client/**/*.ts', 'gateway/**/*.ts', 'shared/**/*.ts'],
    ignores: [
      '**/*.test.ts',
      'cli/commands/ssh.ts',
      'cli/login/open-browser.ts',
      'cli/output/reader.ts',
      'cli/output/jq.ts',
      'agent/host/process/process.ts',
      'agent/host/process/launcher.ts',
      'agent/host/guest/guest-program.ts',
      'agent/host/guest/guest-terminal.ts',
      'agent/host/process/pty.ts',
      'gateway/store/redis-process.ts',
      'gateway/fencing/fence-host.ts',
      'gateway/commands/service.ts',
      'gateway/sockets/descriptor-store.ts',
    ],
    rules: {
      'no-restricted-imports': [
        'error',
        { paths: processSpawners.map((name) => ({ name, message: 'spawn through agent/host/process/process.ts' })) },
      ],
    },
  },
  {
    // The environment is read once.
    files: ['agent/**/*.ts', 'cli/**/*.ts', 'client/**/*.ts', 'gateway/**/*.ts', 'shared/**/*.ts'],
    ignores: ['**/*.test.ts', 'agent/main.ts', 'cli/main.ts', 'gateway/main.ts'],
    rules: {
      'no-restricted-properties': ['error', { object: 'process', property: 'env', message: 'read in main.ts only' }],
    },
  },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: {
      parserOptions: { parser: tseslint.parser, extraFileExtensions: ['.svelte'], svelteConfig },
    },
  },
  {
    files: ['panel/**/*.svelte'],
    rules: {
      'no-undef': 'off',
      'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],
      // The router has hash routes of its own.
      'svelte/no-navigation-without-resolve': 'off',
      // The policy allows no style that is written into a page; `style:width` is set by the script.
      'no-restricted-syntax': [
        'error',
        { selector: 'SvelteAttribute[key.name="style"]', message: 'a class, or style:property' },
      ],
      // A snippet without parameters may stand for what waits for its data.
      'svelte/no-useless-children-snippet': 'off',
      'svelte/prefer-svelte-reactivity': 'off',
      'svelte/no-at-html-tags': 'error',
    },
  },
  {
    // Vite puts the panel together: an import names the file as it is.
    files: ['panel/**'],
    rules: { 'no-restricted-properties': 'off' },
  },
  {
    files: ['**/*.test.ts', 'test/**/*.ts'],
    rules: {
      '@typescript-eslint/no-unused-expressions': 'off',
      'max-lines': 'off',
    },
  },
  {
    files: ['**/*.js', '**/*.mjs', '**/*.cjs'],
    languageOptions: { globals: { process: 'readonly', console: 'readonly' } },
  },
)
