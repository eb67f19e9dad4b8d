import js from '@eslint/js'
import tseslint from 'typescript-eslint'

const processSpawners = ['child_process', 'node:child_process']

export default tseslint.config(
  { ignores: ['dist/', 'proto/gen/', 'node_modules/', 'coverage/', '**/*.cjs'] },
  js.configs.recommended,
  ...tseslint.configs.recommendedTypeChecked,
  {
    languageOptions: {
      parserOptions: {
        projectService: {
          allowDefaultProject: ['*.js', 'scripts/*.mjs', 'test/bench/*.mjs', 'test/support/*.mjs'],
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
