import js from '@eslint/js'
import svelte from 'eslint-plugin-svelte'
import tseslint from 'typescript-eslint'
import svelteConfig from './gateway/panel/svelte.config.js'

const processSpawners = ['child_process', 'node:child_process', 'node-pty']

export default tseslint.config(
  { ignores: ['dist/', 'proto/gen/', 'node_modules/', 'coverage/', '**/*.gen.ts', '**/*.cjs'] },
  js.configs.recommended,
  ...tseslint.configs.recommendedTypeChecked,
  ...svelte.configs.recommended,
  {
    languageOptions: {
      parserOptions: {
        projectService: {
          allowDefaultProject: [
            '*.js',
            'gateway/panel/*.js',
            'scripts/*.mjs',
            'scripts/lib/*.mjs',
            'test/bench/*.mjs',
            'test/support/*.mjs',
          ],
        },
      },
    },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/require-await': 'off',
      'no-empty': ['error', { allowEmptyCatch: false }],
      complexity: ['error', 12],
      'max-params': ['error', 4],
      'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],
      // A member that is private has a #; what a constructor takes and keeps is `private readonly` in its parameters.
      'no-restricted-syntax': [
        'error',
        {
          selector:
            ':matches(PropertyDefinition, MethodDefinition[kind!=constructor])[accessibility=private]',
          message: 'a private member has a name with #',
        },
      ],
    },
  },
  {
    // Only one module of each program starts processes.
    files: ['agent/**/*.ts', 'gateway/**/*.ts', 'shared/**/*.ts'],
    ignores: [
      '**/*.test.ts',
      'agent/host/process.ts',
      'agent/host/launcher.ts',
      'agent/host/guest-terminal.ts',
      'agent/host/pty.ts',
      'gateway/store/redis-process.ts',
    ],
    rules: {
      'no-restricted-imports': [
        'error',
        { paths: processSpawners.map((name) => ({ name, message: 'spawn through agent/host/process.ts' })) },
      ],
    },
  },
  {
    // The environment is read once.
    files: ['agent/**/*.ts', 'gateway/**/*.ts', 'shared/**/*.ts'],
    ignores: ['**/*.test.ts', 'agent/main.ts', 'gateway/main.ts'],
    rules: {
      'no-restricted-properties': [
        'error',
        { object: 'process', property: 'env', message: 'read in main.ts only' },
      ],
    },
  },
  {
    // Their types are svelte-check's: what asks for types here would read the whole project again for each of them.
    files: ['**/*.svelte', '**/*.svelte.ts'],
    ...tseslint.configs.disableTypeChecked,
    languageOptions: {
      parserOptions: {
        ...{ projectService: false, program: null, project: false },
        ...{ parser: tseslint.parser, extraFileExtensions: ['.svelte'], svelteConfig },
      },
    },
  },
  {
    files: ['gateway/panel/**/*.svelte'],
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
    files: ['gateway/panel/**'],
    rules: { 'no-restricted-properties': 'off' },
  },
  {
    files: ['**/*.test.ts', 'test/**/*.ts'],
    rules: {
      '@typescript-eslint/no-unused-expressions': 'off',
      'max-lines': 'off',
      // Tests look into answers of every shape; the published document says what those must be.
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
    },
  },
  {
    files: ['**/*.js', '**/*.mjs', '**/*.cjs'],
    ...tseslint.configs.disableTypeChecked,
    languageOptions: { globals: { process: 'readonly', console: 'readonly' } },
  },
)
