/* Loaded only by commands that need YAML, because it takes longer to load than the rest of the program. */
export { Document, LineCounter, parse, parseAllDocuments, stringify, visit } from 'yaml'
