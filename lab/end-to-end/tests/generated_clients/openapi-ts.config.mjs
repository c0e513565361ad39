export default { input: "openapi.json", output: { path: "sdk", importFileExtension: ".js" } };
